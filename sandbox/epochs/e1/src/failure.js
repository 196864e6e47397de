// The error that ends a run, as its journal records it. Getters of a hostile error run at most once each,
// with nothing accepted from them; every text is bounded.
import { isArray, isError, isWellFormed, jsonOf, min, sliceString, toWellFormed } from "./primordials.js";
import { LOG, encode, encodeLogged } from "./encode.js";
import { stackOf } from "./stack.js";

const TEXT_MAX = 8 * 1024;
const CAUSES_MAX = 5;
const ERRORS_MAX = 8;

const bounded = (text) => {
  const short = text.length > TEXT_MAX ? `${sliceString(text, 0, TEXT_MAX)}…` : text;
  return isWellFormed(short) ? short : toWellFormed(short);
};

const read = (object, key) => {
  try {
    return object[key];
  } catch {
    return undefined;
  }
};

const readText = (object, key) => {
  const value = read(object, key);
  return typeof value === "string" ? bounded(value) : undefined;
};

/** A thrown value that is no Error: said clearly, with what it was. */
const describeOther = (value) => {
  let text = encodeLogged(value);
  if (typeof value === "function") text = "a function";
  return bounded(`non-error thrown: ${text}`);
};

/** The errors of an AggregateError, in the place of its cause. */
const listText = (errors, depth) => {
  let text = "";
  const count = min(errors.length, ERRORS_MAX);
  for (let i = 0; i < count; i++) {
    const error = read(errors, i);
    text += `${i === 0 ? "" : ","}${isError(error) ? errorText(error, depth + 1, undefined) : jsonOf(describeOther(error))}`;
  }
  const more = errors.length - count;
  return `[${text}${more > 0 ? `,${jsonOf(`and ${more} more`)}` : ""}]`;
};

/** An AggregateError of the engine has no line of its own; its first error may have one. */
const firstSiteOf = (errors) => {
  const first = isArray(errors) ? read(errors, 0) : undefined;
  return isError(first) ? stackOf(first).site : null;
};

const causeText = (error, depth) => {
  if (depth >= CAUSES_MAX) return "";
  const cause = read(error, "cause");
  if (cause === undefined) {
    const errors = read(error, "errors");
    return isArray(errors) && errors.length > 0 ? `,"cause":${listText(errors, depth)}` : "";
  }
  if (isError(cause)) return `,"cause":${errorText(cause, depth + 1, undefined)}`;
  let text;
  try {
    text = encode(LOG, "", "cause", cause) ?? "null";
  } catch {
    return "";
  }
  return `,"cause":${text.length > TEXT_MAX ? jsonOf(bounded(text)) : text}`;
};

const siteFields = (site) => (site === null ? "" : `,"line":${site.line},"column":${site.column}`);

const errorText = (error, depth, note, hintFor) => {
  const name = readText(error, "name") ?? "Error";
  let message = readText(error, "message") ?? "";
  const hint = hintFor?.(name, message);
  if (hint !== undefined) message += `\n${hint}`;
  const code = readText(error, "code");
  const { stack, site: ownSite } = stackOf(error);
  const site = ownSite ?? firstSiteOf(read(error, "errors"));
  let shown = stack === undefined ? `${name}: ${message}` : stack;
  if (note !== undefined) shown = `${bounded(shown)}\n    (${note})`;
  const codeField = code === undefined ? "" : `,"code":${jsonOf(code)}`;
  const stackField = stack === undefined && note === undefined ? "" : `,"stack":${jsonOf(bounded(shown))}`;
  return `{"name":${jsonOf(name)},"message":${jsonOf(message)}${codeField}${siteFields(site)}${stackField}${causeText(error, depth)}}`;
};

/** JSON text of `fail_run.error`. `note` says what the stack alone does not, `hintFor` what to write instead. */
export const failureText = (thrown, note, hintFor) => {
  if (isError(thrown)) return errorText(thrown, 0, note, hintFor);
  const message = describeOther(thrown);
  const stack = note === undefined ? "" : `,"stack":${jsonOf(`Error: ${message}\n    (${note})`)}`;
  return `{"name":"Error","message":${jsonOf(message)}${stack}}`;
};
