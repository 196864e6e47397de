// ATTACK: toJSON that returns ever deeper values, getters that add keys while they are read, arrays that grow
// RIGHT: completed; every value has one outcome, the same on replay: what JSON.stringify makes of it, or a TypeError with the path.
import { probe } from "rewind:tools";
export default async function main() {
  const out: Record<string, string> = {};
  const t = async (k: string, v: any) => { out[k] = await probe.echo({ value: v }).then((r: any) => `ok ${JSON.stringify(r).length}`, (e: Error) => `${e.name}: ${e.message.slice(0, 90)}`); };
  const deepTo: any = { toJSON() { return { x: { toJSON: deepTo.toJSON } }; } };
  await t("deepToJSON", deepTo);
  const grow: any = { get a() { this["k" + Object.keys(this).length] = 1; return 1; }, b: 2 };
  await t("grow", grow);
  const arr: any[] = [{ toJSON() { if (arr.length < 50) arr.push(1); return 0; } }];
  await t("growArray", arr);
  const del: any = { get a() { delete this.b; return 1; }, b: 2 };
  await t("deleting", del);
  let d: any = 1; for (let i = 0; i < 250; i++) d = [d];
  await t("deep250", d);
  let ok: any = 1; for (let i = 0; i < 190; i++) ok = [ok];
  await t("deep190", ok);
  await t("infiniteProxy", new Proxy({}, { ownKeys: () => ["x"], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }), get(_t, k, r) { return k === "toJSON" ? undefined : r; } }));
  await t("lone", "\udc00"); await t("loneKey", { ["\ud83d"]: 1 }); await t("bigint", { a: [1n] }); await t("symbolKey", { [Symbol("x")]: 1, y: 1 });
  BigInt.prototype.toJSON = function () { return "patched"; }; await t("patchedBigint", { a: 5n });
  String.prototype.toJSON = function () { return "patched"; } as any; await t("patchedString", { a: "x" });
  delete (String.prototype as any).toJSON;
  return out;
}
declare global { interface BigInt { toJSON(): string } interface String { toJSON(): string } }
