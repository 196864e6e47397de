// Randomness: one stream per run, from its seed (xoshiro128**). Continues across forks.
import { TypeErrorClass, NumberOf, numberToString, padStart, sliceString, uncurry, getOwnPropertyDescriptor, getPrototypeOf, Uint8 } from "./primordials.js";
import { DOMException } from "./errors.js";

let a = 1;
let b = 2;
let c = 3;
let d = 4;

export const seedRandom = (seed) => {
  const word = (i) => NumberOf(`0x${sliceString(seed, i * 8, i * 8 + 8)}`) >>> 0;
  a = word(0);
  b = word(1);
  c = word(2);
  d = word(3);
  if ((a | b | c | d) === 0) a = 1; // the one state that never moves
};

const next32 = () => {
  const x = (b * 5) | 0;
  const result = (((x << 7) | (x >>> 25)) * 9) >>> 0;
  const t = b << 9;
  c ^= a;
  d ^= b;
  b ^= c;
  a ^= d;
  c ^= t;
  d = (d << 11) | (d >>> 21);
  return result;
};

export function random() {
  return ((next32() >>> 5) * 67_108_864 + (next32() >>> 6)) / 9_007_199_254_740_992;
}

const hex = (number, digits) => padStart(numberToString(number, 16), digits, "0");

function randomUUID() {
  const high = hex(next32(), 8);
  const middle = hex(next32(), 8);
  const low = hex(next32(), 8);
  const last = hex(next32(), 8);
  const variant = hex((NumberOf(`0x${low[0]}`) & 3) | 8, 1);
  return `${high}-${sliceString(middle, 0, 4)}-4${sliceString(middle, 5)}-${variant}${sliceString(low, 1, 4)}-${sliceString(low, 4)}${last}`;
}

const TypedArrayPrototype = getPrototypeOf(Uint8.prototype);
const getter = (name) => uncurry(getOwnPropertyDescriptor(TypedArrayPrototype, name).get);
const bufferOf = getter("buffer");
const offsetOf = getter("byteOffset");
const byteLengthOf = getter("byteLength");
const tagOf = uncurry(getOwnPropertyDescriptor(TypedArrayPrototype, Symbol.toStringTag).get);
const RANDOM_BYTES_MAX = 65_536;

function getRandomValues(array) {
  const tag = typeof array === "object" && array !== null ? tagOf(array) : undefined;
  const what = "getRandomValues needs a typed array of integers";
  if (tag === undefined) throw new TypeErrorClass(what);
  if (tag[0] === "F") throw new DOMException(what, "TypeMismatchError");
  const length = byteLengthOf(array);
  if (length > RANDOM_BYTES_MAX) throw new DOMException(`getRandomValues fills at most ${RANDOM_BYTES_MAX} bytes at a time`, "QuotaExceededError");
  const bytes = new Uint8(bufferOf(array), offsetOf(array), length);
  let word = 0;
  for (let i = 0; i < length; i++) {
    if ((i & 3) === 0) word = next32();
    bytes[i] = word & 0xff;
    word >>>= 8;
  }
  return array;
}

export const cryptoObject = { getRandomValues, randomUUID };
