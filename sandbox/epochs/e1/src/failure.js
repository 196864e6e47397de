// The error that ends a run, as its journal records it. Getters of a hostile error run at most once each,
// with nothing accepted from them; every text is bounded, and an error of which one was cut says `truncated`.
import { isArray, isError, isWellFormed, jsonOf, min, toWellFormed } from "./primordials.js";
import { LOG, cutToBytes, encode, encodeLogged, utf8Bytes } from "./encode.js";
import { stackOf } from "./stack.js";

const TEXT_BYTES_MAX = 8 * 1024;
const CUT = "…";
const CUT_BYTES = 3;
const CAUSES_MAX = 5;
const ERRORS_MAX = 8;

/** What became of one error: whether a text of it was cut. */
const newMark = () => ({ __proto__: null, truncated: false });

const bounded = (text, mark) => {
  if (text.length <= TEXT_BYTES_MAX / 3 || utf8Bytes(text) <= TEXT_BYTES_MAX) {
    return isWellFormed(text) ? text : toWellFormed(text);
  }
  mark.truncated = true;
  return `${cutToBytes(text, TEXT_BYTES_MAX - CUT_BYTES)}${CUT}`;
};

const read = (object, key) => {
  try {
    return object[key];
  } catch {
    return undefined;
  }
};

const readText = (object, key, mark) => {
  const value = read(object, key);
  return typeof value === "string" ? bounded(value, mark) : undefined;
};

/** A thrown value that is no Error: said clearly, with what it was. */
const describeOther = (value, mark) => {
  let text = encodeLogged(value);
  if (typeof value === "function") text = "a function";
  return bounded(`non-error thrown: ${text}`, mark);
};

/** The errors of an AggregateError, in the place of its cause. */
const listText = (errors, depth, mark) => {
  let text = "";
  const count = min(errors.length, ERRORS_MAX);
  for (let i = 0; i < count; i++) {
    const error = read(errors, i);
    text += `${i === 0 ? "" : ","}${isError(error) ? errorText(error, depth + 1, undefined) : jsonOf(describeOther(error, mark))}`;
  }
  const more = errors.length - count;
  return `[${text}${more > 0 ? `,${jsonOf(`and ${more} more`)}` : ""}]`;
};

/** An AggregateError of the engine has no line of its own; its first error may have one. */
const firstSiteOf = (errors) => {
  const first = isArray(errors) ? read(errors, 0) : undefined;
  return isError(first) ? stackOf(first).site : null;
};

const causeText = (error, depth, mark) => {
  if (depth >= CAUSES_MAX) return "";
  const cause = read(error, "cause");
  if (cause === undefined) {
    const errors = read(error, "errors");
    return isArray(errors) && errors.length > 0 ? `,"cause":${listText(errors, depth, mark)}` : "";
  }
  if (isError(cause)) return `,"cause":${errorText(cause, depth + 1, undefined)}`;
  let text;
  try {
    text = encode(LOG, "", "cause", cause) ?? "null";
  } catch {
    return "";
  }
  const cut = bounded(text, mark);
  return `,"cause":${cut === text ? text : jsonOf(cut)}`;
};

const siteFields = (site) => (site === null ? "" : `,"line":${site.line},"column":${site.column}`);

const truncatedField = (mark) => (mark.truncated ? ',"truncated":true' : "");

const errorText = (error, depth, note, hintFor) => {
  const mark = newMark();
  const name = readText(error, "name", mark) ?? "Error";
  let message = readText(error, "message", mark) ?? "";
  const hint = hintFor?.(name, message);
  if (hint !== undefined) message = bounded(`${message}\n${hint}`, mark);
  const code = readText(error, "code", mark);
  const { stack, site: ownSite } = stackOf(error);
  const site = ownSite ?? firstSiteOf(read(error, "errors"));
  let shown = stack === undefined ? `${name}: ${message}` : stack;
  if (note !== undefined) shown = `${bounded(shown, mark)}\n    (${note})`;
  const codeField = code === undefined ? "" : `,"code":${jsonOf(code)}`;
  const stackField = stack === undefined && note === undefined ? "" : `,"stack":${jsonOf(bounded(shown, mark))}`;
  const causeField = causeText(error, depth, mark);
  return `{"name":${jsonOf(name)},"message":${jsonOf(message)}${codeField}${siteFields(site)}${stackField}${causeField}${truncatedField(mark)}}`;
};

/** JSON text of `fail_run.error`. `note` says what the stack alone does not, `hintFor` what to write instead. */
export const failureText = (thrown, note, hintFor) => {
  if (isError(thrown)) return errorText(thrown, 0, note, hintFor);
  const mark = newMark();
  const message = describeOther(thrown, mark);
  const stack = note === undefined ? "" : `,"stack":${jsonOf(bounded(`Error: ${message}\n    (${note})`, mark))}`;
  return `{"name":"Error","message":${jsonOf(message)}${stack}${truncatedField(mark)}}`;
};
