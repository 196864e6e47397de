// Every global of the sandbox with the names of its statics and members, own and inherited.
export default async function main() {
  const g: any = globalThis;
  const key = (k: any) => typeof k === "symbol" ? k.description : k;
  const chain = (start: any, ends: any[]) => { const out = new Set<string>(); for (let o = start; o && !ends.includes(o); o = Object.getPrototypeOf(o)) for (const k of Reflect.ownKeys(o)) out.add(key(k)); return out; };
  const made: Record<string, () => any> = {
    Error: () => new Error("e", { cause: 1 }), AggregateError: () => new AggregateError([], "e", { cause: 1 }), RegExp: () => /x/, Array: () => [], String: () => new String(""),
    Function: () => function f() {}, SuppressedError: () => new (g.SuppressedError)(1, 2, "m"), Symbol: () => Object(Symbol("x")),
    DOMException: () => new DOMException("e", { cause: 1 }), Event: () => new Event("x"), TextDecoder: () => new TextDecoder(), TextEncoder: () => new TextEncoder(),
  };
  const out: any = {};
  const visit = (name: string, value: any) => {
    const isFn = typeof value === "function";
    const statics = (isFn || typeof value === "object" && value) ? chain(value, [Function.prototype, Object.prototype]) : new Set<string>();
    for (const k of isFn ? ["length", "name", "prototype", "arguments", "caller"] : []) statics.delete(k);
    const members = isFn && value.prototype ? chain(value.prototype, value === Object ? [] : [Object.prototype]) : new Set<string>();
    if (value !== Object) members.delete("constructor");
    const instance = made[name] ?? (name.endsWith("Error") && name !== "SuppressedError" ? () => new value("e", { cause: 1 }) : undefined);
    if (instance && isFn) for (const k of Reflect.ownKeys(instance())) members.add(key(k));
    out[name] = { statics: [...statics].sort(), members: [...members].sort() };
    if (name === "Intl") for (const k of Object.getOwnPropertyNames(value)) if (typeof value[k] === "function" && value[k].prototype) visit("Intl." + k, value[k]);
  };
  for (const n of Object.getOwnPropertyNames(g)) visit(n, g[n]);
  return out;
}
