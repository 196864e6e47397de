// Lengths that one built-in call may make. Beyond them V8 works for seconds without being interruptible, or ends
// the whole process; here the length alone decides, so the RangeError is the same in every execution.
import {
  RangeErrorClass,
  apply,
  define,
  getOwnPropertyDescriptor,
  isArray,
  max,
  min,
  ownEnumerableKeys,
} from "./primordials.js";

const ELEMENTS_MAX = 2 ** 24;
const CHARACTERS_MAX = 2 ** 26;
/** Normalization works outside the heap, on up to 18 times as much. */
const NORMALIZED_MAX = 2 ** 22;

const refuse = (what, most) => {
  throw new RangeErrorClass(`${what} is longer than the ${most} that the sandbox allows at once`);
};

/** `from`, `to` as fill takes them: relative, clamped. */
const spanOf = (length, from, to) => {
  const place = (value, otherwise) => {
    const n = value === undefined ? otherwise : +value || 0;
    return n < 0 ? max(length + n, 0) : min(n, length);
  };
  return place(to, length) - place(from, 0);
};

/** An array-like says how long it is before anything is made. */
export const checkArrayLike = (items) => {
  if (typeof items !== "object" || items === null || isArray(items)) return;
  const length = getOwnPropertyDescriptor(items, "length");
  if (length !== undefined && length.value > ELEMENTS_MAX) refuse("the list", `${ELEMENTS_MAX} elements`);
};

export const install = (target, methods) => {
  const names = ownEnumerableKeys(methods);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    define(methods[name], "length", target[name].length);
    define(target, name, methods[name]);
  }
};

export const installBounds = (global) => {
  const { fill } = global.Array.prototype;
  const { from } = global.Array;
  const { repeat, padStart, padEnd, normalize } = global.String.prototype;
  install(global.Array.prototype, {
    fill(value, start, end) {
      if (this?.length > ELEMENTS_MAX && spanOf(this.length, start, end) > ELEMENTS_MAX) {
        refuse("the span to fill", `${ELEMENTS_MAX} elements`);
      }
      return apply(fill, this, [value, start, end]);
    },
  });
  install(global.Array, {
    from(items, map, receiver) {
      checkArrayLike(items);
      return apply(from, this, [items, map, receiver]);
    },
  });
  const checkText = (length) => {
    if (length > CHARACTERS_MAX) refuse("the text", `${CHARACTERS_MAX} characters`);
  };
  install(global.String.prototype, {
    repeat(count) {
      if (typeof this === "string") checkText(this.length * count);
      return apply(repeat, this, [count]);
    },
    padStart(length, filler) {
      checkText(length);
      return apply(padStart, this, [length, filler]);
    },
    normalize(form) {
      if (this?.length > NORMALIZED_MAX) refuse("the text to normalize", `${NORMALIZED_MAX} characters`);
      return apply(normalize, this, form === undefined ? [] : [form]);
    },
    padEnd(length, filler) {
      checkText(length);
      return apply(padEnd, this, [length, filler]);
    },
  });
};
