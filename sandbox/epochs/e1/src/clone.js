// structuredClone, after the web's algorithm, for what exists here.
import { MapClass, TypeErrorClass, defineOwn, getPrototypeOf, isArray, isError, mapForEach, mapGet, mapSet, newList, setForEach, objectToString, ownEnumerableKeys, RealDate, dateTime, uncurry, getOwnPropertyDescriptor, hasOwn, numberValue, stringValue, booleanValue, bigintValue, mapSize, setSize } from "./primordials.js";
import { DOMException } from "./errors.js";
import { ErrorClass, stackOf } from "./stack.js";

const { Set: SetClass, RegExp: RegExpClass, ArrayBuffer: BufferClass, DataView: ViewClass, Object: ObjectOf } = globalThis;
const { isView } = BufferClass;
const newArray = Array;
const setAdd = uncurry(SetClass.prototype.add);
const getter = (object, name) => uncurry(getOwnPropertyDescriptor(object, name).get);
const TypedArrayPrototype = getPrototypeOf(Uint8Array.prototype);
const typedTag = getter(TypedArrayPrototype, Symbol.toStringTag);
const typedBuffer = getter(TypedArrayPrototype, "buffer");
const typedOffset = getter(TypedArrayPrototype, "byteOffset");
const typedLength = getter(TypedArrayPrototype, "length");
const viewBuffer = getter(ViewClass.prototype, "buffer");
const viewOffset = getter(ViewClass.prototype, "byteOffset");
const viewLength = getter(ViewClass.prototype, "byteLength");
const bufferLength = getter(BufferClass.prototype, "byteLength");
const bufferSlice = uncurry(BufferClass.prototype.slice);
const regexpSource = getter(RegExpClass.prototype, "source");
const regexpFlags = getter(RegExpClass.prototype, "flags");
const typedClasses = { __proto__: null };
for (const Class of [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array, Float16Array, Float32Array, Float64Array]) typedClasses[Class.name] = Class;
const errorClasses = { __proto__: null, Error: ErrorClass, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

const refuse = (what) => {
  throw new DOMException(`${what} cannot be cloned`, "DataCloneError");
};

const succeeds = (probe, value) => {
  try {
    probe(value);
    return true;
  } catch {
    return false;
  }
};

const cloneError = (memory, error, clone) => {
  const name = `${error.name}`;
  const message = getOwnPropertyDescriptor(error, "message");
  const Class = errorClasses[name] ?? ErrorClass;
  const copy = new Class(message === undefined ? undefined : `${message.value}`);
  mapSet(memory, error, copy);
  const { stack } = stackOf(error);
  if (stack !== undefined) copy.stack = stack;
  if (hasOwn(error, "cause")) copy.cause = clone(error.cause);
  return copy;
};

const cloneView = (value, clone) => {
  const tag = typedTag(value);
  if (tag === undefined) return new ViewClass(clone(viewBuffer(value)), viewOffset(value), viewLength(value));
  return new typedClasses[tag](clone(typedBuffer(value)), typedOffset(value), typedLength(value));
};

const BOXES = { __proto__: null, "[object Number]": numberValue, "[object String]": stringValue, "[object Boolean]": booleanValue, "[object BigInt]": bigintValue };

/** Platform values that have no parts of their own; undefined for everything else. */
const cloneSimple = (value, tag) => {
  if (succeeds(dateTime, value)) return new RealDate(dateTime(value));
  const unbox = BOXES[tag];
  if (unbox !== undefined && succeeds(unbox, value)) return ObjectOf(unbox(value));
  if (tag === "[object RegExp]" && succeeds(regexpSource, value)) return new RegExpClass(regexpSource(value), regexpFlags(value));
  if (tag === "[object ArrayBuffer]" && succeeds(bufferLength, value)) return bufferSlice(value, 0);
  return undefined;
};

const cloneParts = (memory, value, tag, clone) => {
  if (tag === "[object Map]" && succeeds(mapSize, value)) {
    const copy = new MapClass();
    mapSet(memory, value, copy);
    const entries = newList();
    mapForEach(value, (item, key) => (entries[entries.length++] = { __proto__: null, key, item }));
    for (let i = 0; i < entries.length; i++) mapSet(copy, clone(entries[i].key), clone(entries[i].item));
    return copy;
  }
  if (tag === "[object Set]" && succeeds(setSize, value)) {
    const copy = new SetClass();
    mapSet(memory, value, copy);
    const items = newList();
    setForEach(value, (item) => (items[items.length++] = item));
    for (let i = 0; i < items.length; i++) setAdd(copy, clone(items[i]));
    return copy;
  }
  if (!isArray(value) && (tag === "[object Promise]" || tag === "[object WeakMap]" || tag === "[object WeakSet]")) refuse(tag);
  const copy = isArray(value) ? newArray(value.length) : {};
  mapSet(memory, value, copy);
  const keys = ownEnumerableKeys(value);
  for (let i = 0; i < keys.length; i++) {
    defineOwn(copy, keys[i], { __proto__: null, value: clone(value[keys[i]]), writable: true, enumerable: true, configurable: true });
  }
  return copy;
};

export function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeErrorClass("structuredClone needs a value");
  if (options?.transfer !== undefined && options.transfer.length > 0) refuse("transfer: what is transferred");
  const memory = new MapClass();
  const clone = (item) => {
    if (typeof item === "symbol") refuse("a symbol");
    if (typeof item === "function") refuse(`the function ${item.name || "(anonymous)"}`);
    if (item === null || typeof item !== "object") return item;
    const known = mapGet(memory, item);
    if (known !== undefined) return known;
    if (isError(item)) return cloneError(memory, item, clone);
    const tag = objectToString(item);
    const copy = isView(item) ? cloneView(item, clone) : cloneSimple(item, tag);
    if (copy === undefined) return cloneParts(memory, item, tag, clone);
    mapSet(memory, item, copy);
    return copy;
  };
  return clone(value);
}
