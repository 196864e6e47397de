// ATTACK: Symbol.species, subclassed Array / Promise / Map as arguments, and awaited subclass
// RIGHT: completed; arguments are read by JSON's rule, promises of tools are promises of the realm; no constructor of the script is called by the platform.
import { probe } from "rewind:tools";
class A extends Array<number> { static get [Symbol.species]() { return class { constructor() { throw new Error("species"); } } as any; } }
class P<T> extends Promise<T> { static get [Symbol.species]() { return Promise; } then(a?: any, b?: any): any { return super.then((v: any) => a?.(v), b); } }
export default async function main() {
  const a = new A(); a.push(1, 2);
  const r = await probe.echo({ value: a } as any);
  const p = await P.resolve(probe.echo({ value: 1 }));
  const all = await P.all([probe.echo({ value: 2 }), probe.echo({ value: 3 })]);
  const o = Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true }, hidden: { value: 3 } });
  const n = Object.assign(Object.create(null), { k: 1 });
  return { r, p, all, o: await probe.echo({ value: o } as any), n: await probe.echo({ value: n } as any), ctor: (probe.echo({ value: 0 }) as any).constructor === Promise };
}
