// What the prelude uses of the language, captured before any script runs. Prelude code that runs later must
// not look anything up that a script can reach: no methods on arrays or promises, no iteration protocol, no
// spread, no object literal as a property descriptor without `__proto__: null`, no write to a missing array index.

const { bind, call } = Function.prototype;
/** uncurry(f)(self, ...args) is f.call(self, ...args), whatever a script does to Function.prototype. */
export const uncurry = bind.bind(call);

export const { apply, construct, ownKeys, getPrototypeOf, setPrototypeOf } = Reflect;
export const {
  create,
  defineProperty: defineOwn,
  freeze,
  getOwnPropertyDescriptor,
  hasOwn,
  keys: ownEnumerableKeys,
} = Object;
export const { isArray } = Array;
export const { isFinite: isFiniteNumber, isNaN: isNaNNumber, isInteger } = Number;
export const { floor, min, max, ceil } = Math;
export const { isRawJSON: isRawJson, parse: parseJson, stringify: jsonOf } = JSON;
export const PromiseClass = Promise;
export const PromisePrototype = Promise.prototype;
export const promiseThen = uncurry(Promise.prototype.then);
export const MapClass = Map;
export const WeakMapClass = WeakMap;
export const TypeErrorClass = TypeError;
export const RangeErrorClass = RangeError;
export const SyntaxErrorClass = SyntaxError;
export const RealError = Error;
export const isError = Error.isError;
export const RealDate = Date;
export const StringOf = String;
export const NumberOf = Number;
export const ObjectPrototype = Object.prototype;
export const Uint8 = Uint8Array;

export const mapGet = uncurry(Map.prototype.get);
export const mapSet = uncurry(Map.prototype.set);
export const mapHas = uncurry(Map.prototype.has);
export const mapDelete = uncurry(Map.prototype.delete);
export const mapForEach = uncurry(Map.prototype.forEach);
export const mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, "size").get);
export const setSize = uncurry(getOwnPropertyDescriptor(Set.prototype, "size").get);
export const setForEach = uncurry(Set.prototype.forEach);
export const weakGet = uncurry(WeakMap.prototype.get);
export const weakSet = uncurry(WeakMap.prototype.set);
export const weakHas = uncurry(WeakMap.prototype.has);
export const sortArray = uncurry(Array.prototype.sort);
export const joinArray = uncurry(Array.prototype.join);
export const sliceString = uncurry(String.prototype.slice);
export const indexOfString = uncurry(String.prototype.indexOf);
export const charCodeAt = uncurry(String.prototype.charCodeAt);
export const isWellFormed = uncurry(String.prototype.isWellFormed);
export const toWellFormed = uncurry(String.prototype.toWellFormed);
export const trimString = uncurry(String.prototype.trim);
export const padStart = uncurry(String.prototype.padStart);
export const repeatString = uncurry(String.prototype.repeat);
export const toLowerCase = uncurry(String.prototype.toLowerCase);
export const toUpperCase = uncurry(String.prototype.toUpperCase);
export const numberToString = uncurry(Number.prototype.toString);
export const numberValue = uncurry(Number.prototype.valueOf);
export const stringValue = uncurry(String.prototype.valueOf);
export const booleanValue = uncurry(Boolean.prototype.valueOf);
export const bigintValue = uncurry(BigInt.prototype.valueOf);
export const bigintToString = uncurry(BigInt.prototype.toString);
export const symbolToString = uncurry(Symbol.prototype.toString);
export const functionToString = uncurry(Function.prototype.toString);
export const dateTime = uncurry(Date.prototype.getTime);
export const dateToIso = uncurry(Date.prototype.toISOString);
export const regexpExec = uncurry(RegExp.prototype.exec);
export const objectToString = uncurry(Object.prototype.toString);

/** A list that no prototype can observe: `list[list.length++] = x`. */
export const newList = () => ({ __proto__: null, length: 0 });

export const define = (target, key, value) =>
  defineOwn(target, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

export const defineFixed = (target, key, value) =>
  defineOwn(target, key, { __proto__: null, value, writable: false, enumerable: true, configurable: false });

export const defineGetter = (target, key, get) =>
  defineOwn(target, key, { __proto__: null, get, enumerable: true, configurable: true });

/** Call on settlement, without the species protocol: `promise` must be one that the prelude itself made. */
export const watch = (promise, fulfilled, rejected) => {
  defineOwn(promise, "constructor", { __proto__: null, value: undefined });
  return promiseThen(promise, fulfilled, rejected);
};

export const rejectedWith = (error) => new PromiseClass((_, reject) => reject(error));
