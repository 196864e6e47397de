// Values that leave the sandbox, as canonical JSON text (RFC 8785). One encoder for arguments, outputs and logs:
// JSON.stringify's rule on captured primordials, keys sorted by UTF-16 code units, refusals with the path.
import {
  ObjectPrototype,
  TypeErrorClass,
  apply,
  bigintToString,
  bigintValue,
  booleanValue,
  getPrototypeOf,
  isArray,
  isError,
  isFiniteNumber,
  isRawJson,
  isWellFormed,
  jsonOf,
  mapSize,
  newList,
  numberValue,
  objectToString,
  ownEnumerableKeys,
  parseJson,
  regexpExec,
  setSize,
  sliceString,
  sortArray,
  stringValue,
  symbolToString,
  toWellFormed,
  charCodeAt,
} from "./primordials.js";
import { ErrorClass, stackOf } from "./stack.js";

/** JSON's rule · stricter, for outputs · never throws, for logs. */
export const ARGUMENTS = 0;
export const OUTPUT = 1;
export const LOG = 2;

export const DEPTH_MAX = 200;
const IDENTIFIER = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

const NOT_ASCII = /[^\x00-\x7f]/;

/** What a UTF-16 unit adds to the text's length in UTF-8: half of a pair counts two of its four bytes. */
const extraBytes = (unit) => (unit <= 0x7f ? 0 : unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1);

/** Bytes of the text in UTF-8; lone surrogates do not occur. */
export const utf8Bytes = (text) => {
  if (regexpExec(NOT_ASCII, text) === null) return text.length;
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) bytes += extraBytes(charCodeAt(text, i));
  return bytes;
};

/** As much of the text as fits in so many bytes. */
export const cutToBytes = (text, bytesMax) => {
  let bytes = 0;
  let end = 0;
  while (end < text.length) {
    bytes += 1 + extraBytes(charCodeAt(text, end));
    if (bytes > bytesMax) break;
    end++;
  }
  return toWellFormed(sliceString(text, 0, end));
};

const newWalk = (mode, subject, root) => ({ __proto__: null, mode, subject, root, keys: newList(), within: newList() });

const pathOf = (walk, depth) => {
  let path = walk.root;
  for (let i = 0; i < depth; i++) {
    const key = walk.keys[i];
    if (typeof key === "number") path += `[${key}]`;
    else path += regexpExec(IDENTIFIER, key) === null ? `[${jsonOf(toWellFormed(key))}]` : `.${key}`;
  }
  return path;
};

/** In a log the text stands for the value; elsewhere the value is refused by name and path. */
const refuse = (walk, depth, what, text) => {
  if (walk.mode === LOG) return jsonOf(toWellFormed(text));
  const subject = walk.subject === "" ? "" : `${walk.subject}: `;
  throw new TypeErrorClass(`${subject}${pathOf(walk, depth)} ${what}`);
};

const encodeString = (walk, text, depth) => {
  if (isWellFormed(text)) return jsonOf(text);
  return refuse(walk, depth, "holds a lone surrogate, which no JSON text can: use String.prototype.toWellFormed()", text);
};

const encodeNumber = (walk, number, depth) => {
  if (isFiniteNumber(number)) return number === 0 ? "0" : `${number}`;
  if (walk.mode === ARGUMENTS) return "null";
  return refuse(walk, depth, `is ${number}, which JSON cannot hold: return null or text instead`, `${number}`);
};

const encodeNothing = (walk, value, depth) => {
  if (walk.mode === ARGUMENTS || (walk.mode === OUTPUT && value === undefined)) return undefined;
  if (typeof value === "undefined") return depth === 0 ? refuse(walk, depth, "", "undefined") : undefined;
  const text = typeof value === "symbol" ? symbolToString(value) : "[function]";
  return refuse(walk, depth, `is a ${typeof value}, which JSON cannot hold`, text);
};

const encodePrimitive = (walk, value, depth) => {
  switch (typeof value) {
    case "string":
      return encodeString(walk, value, depth);
    case "number":
      return encodeNumber(walk, value, depth);
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      return refuse(
        walk,
        depth,
        "is a BigInt, which JSON cannot hold: send it as text or a number",
        `${bigintToString(value)}n`,
      );
    default:
      return encodeNothing(walk, value, depth);
  }
};

const unboxed = (value, tag) => {
  try {
    switch (tag) {
      case "[object Number]":
        return numberValue(value);
      case "[object String]":
        return stringValue(value);
      case "[object Boolean]":
        return booleanValue(value);
      case "[object BigInt]":
        return bigintValue(value);
      default:
        return value;
    }
  } catch {
    return value; // only said to be one
  }
};

const isCollection = (value, tag) => {
  try {
    if (tag === "[object Map]") return mapSize(value) >= 0;
    return tag === "[object Set]" && setSize(value) >= 0;
  } catch {
    return false;
  }
};

/** A class instance, box, collection or error: what is special about it. Returns text, or undefined to go on. */
const encodeSpecial = (walk, value, depth) => {
  const tag = objectToString(value);
  const inner = unboxed(value, tag);
  if (typeof inner !== "object") return encodePrimitive(walk, inner, depth);
  if (walk.mode === ARGUMENTS) return undefined;
  if (isCollection(value, tag)) {
    const name = tag === "[object Map]" ? "Map" : "Set";
    const hint = name === "Map" ? "Object.fromEntries(map)" : "[...set]";
    const size = name === "Map" ? mapSize(value) : setSize(value);
    return refuse(walk, depth, `is a ${name}, of which JSON keeps nothing: use ${hint}`, `${name}(${size})`);
  }
  if (walk.mode === LOG && isError(value)) return jsonOf(toWellFormed(textOfError(value)));
  return undefined;
};

export const textOfError = (error) => {
  const { stack } = stackOf(error);
  if (stack !== undefined) return stack;
  try {
    return `${apply(ErrorClass.prototype.toString, error, [])}`;
  } catch {
    return "[error]";
  }
};

const enter = (walk, value, depth) => {
  if (depth >= DEPTH_MAX) return refuse(walk, depth, `is nested deeper than ${DEPTH_MAX}`, "[too deep]");
  for (let i = 0; i < depth; i++) {
    if (walk.within[i] === value) return refuse(walk, depth, "is a cycle: it contains itself", "[cycle]");
  }
  walk.within[depth] = value;
  return undefined;
};

const encodeArray = (walk, array, depth) => {
  const length = array.length;
  let text = "[";
  for (let i = 0; i < length; i++) {
    walk.keys[depth] = i;
    const item = encodeAny(walk, array[i], i, depth + 1);
    if (i > 0) text += ",";
    text += item === undefined ? "null" : item;
  }
  return text + "]";
};

const encodeObject = (walk, object, depth) => {
  const keys = ownEnumerableKeys(object);
  const count = keys.length;
  for (let i = 0; i < count; i++) {
    if (!isWellFormed(keys[i])) return refuse(walk, depth, "has a key with a lone surrogate", "[object with a key that is no text]");
  }
  let sorted = true;
  for (let i = 1; i < count && sorted; i++) sorted = keys[i - 1] < keys[i];
  let text = "";
  if (sorted) {
    for (let i = 0; i < count; i++) {
      const key = keys[i];
      walk.keys[depth] = key;
      const item = encodeAny(walk, object[key], key, depth + 1);
      if (item !== undefined) text += `${text === "" ? "" : ","}${jsonOf(key)}:${item}`;
    }
    return `{${text}}`;
  }
  // Read in the order in which the object gives its keys, written in canonical order.
  const items = { __proto__: null };
  for (let i = 0; i < count; i++) {
    const key = keys[i];
    walk.keys[depth] = key;
    items[key] = encodeAny(walk, object[key], key, depth + 1);
  }
  sortArray(keys);
  for (let i = 0; i < count; i++) {
    const key = keys[i];
    const item = items[key];
    if (item !== undefined) text += `${text === "" ? "" : ","}${jsonOf(key)}:${item}`;
  }
  return `{${text}}`;
};

const encodeContainer = (walk, value, depth) => {
  const refused = enter(walk, value, depth);
  if (refused !== undefined) return refused;
  if (isArray(value)) return encodeArray(walk, value, depth);
  const prototype = getPrototypeOf(value);
  if (prototype === null && isRawJson(value)) return encodeAny(walk, parseJson(value.rawJSON), "", depth);
  if (prototype !== ObjectPrototype && prototype !== null) {
    const special = encodeSpecial(walk, value, depth);
    if (special !== undefined) return special;
  }
  return encodeObject(walk, value, depth);
};

/** Text of the value, or undefined when JSON leaves it out. `key` is what toJSON gets. */
const encodeAny = (walk, value, key, depth) => {
  if (value === null) return "null";
  const kind = typeof value;
  if (kind !== "object" && kind !== "function" && kind !== "bigint") return encodePrimitive(walk, value, depth);
  let encoded = value;
  const toJson = value.toJSON;
  if (typeof toJson === "function") encoded = apply(toJson, value, [`${key}`]);
  if (encoded === null) return "null";
  if (typeof encoded !== "object") return encodePrimitive(walk, encoded, depth);
  return encodeContainer(walk, encoded, depth);
};

/** Canonical text, or undefined; throws TypeError with the path, and whatever getters and toJSON throw. */
export const encode = (mode, subject, root, value) => encodeAny(newWalk(mode, subject, root), value, "", 0);

/** Canonical text of one logged value: never throws. */
export const encodeLogged = (value) => {
  try {
    return encode(LOG, "", "value", value) ?? '"undefined"';
  } catch (error) {
    let why = "a getter or toJSON threw";
    if (isError(error)) why = sliceString(textOfError(error), 0, 200);
    return jsonOf(toWellFormed(`[cannot be shown: ${why}]`));
  }
};

export const refuseSize = (subject, root, bytes, allowed) => {
  throw new TypeErrorClass(`${subject}${subject === "" ? "" : ": "}${root} is ${bytes} bytes as JSON, more than the ${allowed} that a value may have`);
};
