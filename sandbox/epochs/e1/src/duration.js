// Durations: milliseconds, or text such as "250ms", "1h 30m", "PT90S".
import { NumberOf, RangeErrorClass, TypeErrorClass, isFiniteNumber, jsonOf, regexpExec, sliceString, trimString } from "./primordials.js";

const UNITS = { __proto__: null, ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const ISO_UNITS = { __proto__: null, W: 604_800_000, D: 86_400_000, H: 3_600_000, M: 60_000, S: 1_000 };
const PART = /^([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)(?![a-z])\s*/;
const ISO_PART = /^([0-9]+(?:[.,][0-9]+)?)([WDHMS])/;
/** As far as a Date reaches. */
const LONGEST_MS = 8_640_000_000_000_000;

const refuse = (value) => {
  throw new RangeErrorClass(`${value} is not a duration: use milliseconds, or text such as "30s", "1h 30m", "10d", "PT90S"`);
};

const ofIso = (text) => {
  let rest = sliceString(text, 1);
  let total = 0;
  let inTime = false;
  let parts = 0;
  while (rest !== "") {
    if (!inTime && rest[0] === "T") {
      inTime = true;
      rest = sliceString(rest, 1);
    }
    const part = regexpExec(ISO_PART, rest);
    if (part === null) refuse(jsonOf(text));
    const unit = part[2];
    const dayPart = unit === "W" || unit === "D";
    if (dayPart === inTime) refuse(jsonOf(text));
    const comma = regexpExec(/,/, part[1]);
    const digits = comma === null ? part[1] : `${sliceString(part[1], 0, comma.index)}.${sliceString(part[1], comma.index + 1)}`;
    total += NumberOf(digits) * ISO_UNITS[unit];
    rest = sliceString(rest, part[0].length);
    parts++;
  }
  if (parts === 0) refuse(jsonOf(text));
  return total;
};

const ofText = (text) => {
  let rest = trimString(text);
  const negative = rest[0] === "-";
  if (negative) rest = trimString(sliceString(rest, 1));
  if (rest[0] === "P") return negative ? -ofIso(rest) : ofIso(rest);
  if (rest === "") refuse(jsonOf(text));
  let total = 0;
  while (rest !== "") {
    const part = regexpExec(PART, rest);
    if (part === null) refuse(jsonOf(text));
    total += NumberOf(part[1]) * UNITS[part[2]];
    rest = sliceString(rest, part[0].length);
  }
  return negative ? -total : total;
};

/** Milliseconds ≥ 0. Throws RangeError for other text and for what no clock reaches, TypeError for no duration. */
export const milliseconds = (duration) => {
  let ms;
  if (typeof duration === "number") ms = duration;
  else if (typeof duration === "string") ms = ofText(duration);
  else throw new TypeErrorClass('a duration is a number of milliseconds or text such as "30s"');
  if (!(ms > 0)) return 0;
  if (!isFiniteNumber(ms) || ms > LONGEST_MS) throw new RangeErrorClass("the duration is longer than any clock reaches");
  return ms;
};
