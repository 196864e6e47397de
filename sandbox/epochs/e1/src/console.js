// console: every line is a `log` command. Never throws; values are cut at 8 KiB, the run's logs at their volume.
import {
  NumberOf,
  StringOf,
  create,
  floor,
  hasOwn,
  indexOfString,
  isArray,
  jsonOf,
  newList,
  ownEnumerableKeys,
  repeatString,
  sliceString,
  toWellFormed,
} from "./primordials.js";
import { callsite, framesOf } from "./stack.js";
import { emit, run } from "./journal.js";
import { cutToBytes, encodeLogged, utf8Bytes } from "./encode.js";

const VALUE_BYTES_MAX = 8 * 1024;

let volumeNotice = false;

const write = (level, values, site) => {
  if (!run.accepting || run.logBytesLeft < 0) return;
  let text = "";
  let truncated = false;
  for (let i = 0; i < values.length; i++) {
    let item = encodeLogged(values[i]);
    if (item.length > VALUE_BYTES_MAX / 3 && utf8Bytes(item) > VALUE_BYTES_MAX) {
      const plain = typeof values[i] === "string" ? toWellFormed(values[i]) : item;
      item = jsonOf(cutToBytes(plain, VALUE_BYTES_MAX));
      truncated = true;
    }
    text += i === 0 ? item : `,${item}`;
  }
  run.logBytesLeft -= utf8Bytes(text);
  if (run.logBytesLeft < 0 && !volumeNotice) {
    volumeNotice = true;
    emit("log", `,"level":"warn","values":${jsonOf('["the run has logged as much as it may: later lines are dropped"]')},"truncated":true`, site);
    return;
  }
  emit("log", `,"level":"${level}","values":${jsonOf(`[${text}]`)},"truncated":${truncated}`, site);
};

const asNumber = (value, integer) => {
  try {
    const number = typeof value === "symbol" ? NaN : NumberOf(value);
    return `${integer && number === number ? (number < 0 ? -floor(-number) : floor(number)) : number}`;
  } catch {
    return "NaN";
  }
};

const asText = (value) => {
  if (typeof value === "string") return value;
  if (typeof value === "function") return "[function]";
  if (value === null || typeof value !== "object") return StringOf(value);
  return encodeLogged(value);
};

const FORMATS = {
  __proto__: null,
  s: asText,
  d: (value) => asNumber(value, false),
  i: (value) => asNumber(value, true),
  f: (value) => asNumber(value, false),
  o: encodeLogged,
  O: encodeLogged,
  j: encodeLogged,
  c: () => "",
};

/** printf of the web's console: %s %d %i %f %o %O %j %c %%, only when the first value is text that has one. */
const formatted = (args) => {
  const first = args[0];
  if (args.length < 2 || typeof first !== "string" || indexOfString(first, "%") < 0) return args;
  const out = newList();
  let text = "";
  let used = 1;
  for (let i = 0; i < first.length; i++) {
    const next = first[i + 1];
    const format = first[i] === "%" && next !== undefined ? FORMATS[next] : undefined;
    if (first[i] === "%" && next === "%") {
      text += "%";
      i++;
    } else if (format !== undefined && used < args.length) {
      text += format(args[used++]);
      i++;
    } else {
      text += first[i];
    }
  }
  out[out.length++] = text;
  for (; used < args.length; used++) out[out.length++] = args[used];
  return out;
};

let indent = 0;
const counts = create(null);
const timers = create(null);

const line = (level, args, site) => {
  const values = formatted(args);
  if (indent === 0) return write(level, values, site);
  const shifted = newList();
  const margin = repeatString("  ", indent);
  for (let i = 0; i < values.length; i++) shifted[shifted.length++] = values[i];
  if (shifted.length > 0 && typeof shifted[0] === "string") shifted[0] = margin + shifted[0];
  write(level, shifted, site);
};

const one = (text) => ({ __proto__: null, length: 1, 0: text });
const labelOf = (label) => (label === undefined ? "default" : toWellFormed(asText(label)));

const method = (level, name) => {
  const made = {
    [name](...args) {
      line(level, args, callsite(own));
    },
  };
  const own = made[name];
  return own;
};

/** The rows of a table with these columns only; anything else as it is. */
const picked = (data, columns) => {
  if (!isArray(columns) || typeof data !== "object" || data === null) return data;
  const table = create(null);
  try {
    const keys = ownEnumerableKeys(data);
    for (let i = 0; i < keys.length; i++) {
      const row = data[keys[i]];
      table[keys[i]] = row;
      if (typeof row !== "object" || row === null) continue;
      const cells = create(null);
      for (let j = 0; j < columns.length; j++) if (hasOwn(row, columns[j])) cells[columns[j]] = row[columns[j]];
      table[keys[i]] = cells;
    }
  } catch {
    return data; // what a getter threw is said where the value is written
  }
  return table;
};

export const progress = (value) => write("progress", one(value), callsite(progress));

export const consoleObject = {
  debug: method("debug", "debug"),
  log: method("log", "log"),
  info: method("info", "info"),
  warn: method("warn", "warn"),
  error: method("error", "error"),
  trace(...args) {
    const site = callsite(original.trace);
    const values = newList();
    for (let i = 0; i < args.length; i++) values[values.length++] = args[i];
    values[values.length++] = `Trace${framesOf(site)}`;
    line("debug", values, site);
  },
  dir: (value) => line("log", one(value), callsite(original.dir)),
  dirxml: method("log", "dirxml"),
  table: (value, columns) => line("log", one(picked(value, columns)), callsite(original.table)),
  assert(condition, ...args) {
    if (condition) return;
    const values = newList();
    values[values.length++] = "Assertion failed";
    for (let i = 0; i < args.length; i++) values[values.length++] = args[i];
    line("error", values, callsite(original.assert));
  },
  count(label) {
    const key = labelOf(label);
    counts[key] = (counts[key] ?? 0) + 1;
    line("log", one(`${key}: ${counts[key]}`), callsite(original.count));
  },
  countReset(label) {
    counts[labelOf(label)] = 0;
  },
  group(...args) {
    if (args.length > 0) line("log", args, callsite(original.group));
    indent++;
  },
  groupCollapsed(...args) {
    if (args.length > 0) line("log", args, callsite(original.groupCollapsed));
    indent++;
  },
  groupEnd() {
    if (indent > 0) indent--;
  },
  time(label) {
    timers[labelOf(label)] = run.now;
  },
  timeLog(label, ...args) {
    const key = labelOf(label);
    const values = newList();
    values[values.length++] = `${key}: ${run.now - (timers[key] ?? run.now)} ms`;
    for (let i = 0; i < args.length; i++) values[values.length++] = args[i];
    line("log", values, callsite(original.timeLog));
  },
  timeEnd(label) {
    const key = labelOf(label);
    line("log", one(`${key}: ${run.now - (timers[key] ?? run.now)} ms`), callsite(original.timeEnd));
    delete timers[key];
  },
};

/** The methods themselves, whatever a script puts in their place. */
const original = { __proto__: null };
for (const name of ownEnumerableKeys(consoleObject)) original[name] = consoleObject[name];
