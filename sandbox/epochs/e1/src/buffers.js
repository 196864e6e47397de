// Memory of buffers, which lies outside the engine's heap. One allocation has a counted bound, so its RangeError is
// the same in every execution; the sum is weighed by the engine, which ends the run when what is alive exceeds the
// heap limit. A failed allocation depends on the neighbours and is never shown to a script: it ends the run too.
import {
  MapClass,
  RangeErrorClass,
  apply,
  construct,
  define,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  isArray,
  isError,
  mapForEach,
  mapSet,
  max,
  uncurry,
} from "./primordials.js";
import { checkArrayLike, install } from "./bounds.js";

const BYTES_MAX = 2 ** 26;
/** Bytes made between two weighings. */
const STEP = 2 ** 25;
/** What a buffer costs besides its bytes. */
const OVERHEAD = 256;
const FAILED = "Array buffer allocation failed";

let sinceWeighed = 0;

/** Make something of about so many bytes. */
const counted = (memory, bytes, make) => {
  if (bytes > BYTES_MAX) throw new RangeErrorClass(`a buffer is larger than the ${BYTES_MAX} bytes that the sandbox allows at once`);
  sinceWeighed += bytes + OVERHEAD;
  if (sinceWeighed > STEP) {
    sinceWeighed = 0;
    memory.weigh();
  }
  try {
    return make();
  } catch (error) {
    if (isError(error) && error.message === FAILED) {
      memory.exhaust();
      for (;;);
    }
    throw error;
  }
};

const typedLengthOf = uncurry(getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "length").get);
const byteLengthOf = uncurry(getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "byteLength").get);
const bufferLength = uncurry(getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get);
const { isView } = ArrayBuffer;
const lengthInBytes = (length, size) => (typeof length === "number" ? length : +length || 0) * size;

const isBuffer = (value) => {
  try {
    return bufferLength(value) >= 0;
  } catch {
    return false;
  }
};

/** Bytes that `new Typed(first)` allocates, as far as it can be known before. */
const bytesOf = (first, size) => {
  if (typeof first !== "object" || first === null) return typeof first === "symbol" || typeof first === "bigint" ? 0 : lengthInBytes(first, size);
  if (isArray(first)) return first.length * size;
  if (isView(first)) {
    try {
      return typedLengthOf(first) * size;
    } catch {
      return 0; // a DataView
    }
  }
  if (isBuffer(first)) return 0;
  checkArrayLike(first);
  const length = getOwnPropertyDescriptor(first, "length");
  return length === undefined ? 0 : lengthInBytes(length.value, size);
};

const countedClass = (memory, Real, bytes) =>
  new Proxy(Real, {
    __proto__: null,
    construct: (target, args, newTarget) => counted(memory, bytes(args), () => construct(target, args, newTarget)),
  });

const bufferBytes = (args) => {
  const options = args[1];
  const most = typeof options === "object" && options !== null ? options.maxByteLength : undefined;
  return max(lengthInBytes(args[0], 1), most === undefined ? 0 : lengthInBytes(most, 1));
};

const wrapMethods = (memory, target, names, bytes) => {
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    const original = target[name];
    const wrapped = {
      [name](...args) {
        return counted(memory, bytes(this, args), () => apply(original, this, args));
      },
    };
    install(target, wrapped);
  }
};

const replace = (global, name, bytes, memory) => {
  const Real = global[name];
  const Counted = countedClass(memory, Real, bytes);
  define(Real.prototype, "constructor", Counted);
  define(global, name, Counted);
};

const sizeOr = (measure, value) => {
  try {
    return measure(value);
  } catch {
    return 0; // the method itself refuses
  }
};

export const installBuffers = (global, memory) => {
  const Typed = getPrototypeOf(global.Uint8Array);
  const classes = new MapClass();
  const names = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array"];
  for (let i = 0; i < names.length; i++) mapSet(classes, names[i], global[names[i]].BYTES_PER_ELEMENT);
  wrapMethods(memory, global.Uint8Array, ["fromBase64", "fromHex"], (_, args) => (typeof args[0] === "string" ? args[0].length : 0));
  wrapMethods(memory, Typed.prototype, ["toReversed", "toSorted", "with"], (self) => sizeOr(byteLengthOf, self));
  const { from } = Typed;
  install(Typed, {
    from(items, map, receiver) {
      checkArrayLike(items);
      return apply(from, this, [items, map, receiver]);
    },
  });
  wrapMethods(memory, global.ArrayBuffer.prototype, ["transfer", "transferToFixedLength"], (self, args) =>
    args[0] === undefined ? sizeOr(bufferLength, self) : lengthInBytes(args[0], 1),
  );
  mapForEach(classes, (size, name) => replace(global, name, (args) => bytesOf(args[0], size), memory));
  replace(global, "ArrayBuffer", bufferBytes, memory);
};
