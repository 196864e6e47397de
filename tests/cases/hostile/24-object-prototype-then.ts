// ATTACK: Object.prototype.then makes every result a thenable
// RIGHT: completed; a getter that gives undefined changes nothing; a `then` that is a function hijacks the script's own promises, as the language says, and nothing of the journal.
import { probe } from "rewind:tools";
export default async function main() {
  let seen = 0;
  Object.defineProperty(Object.prototype, "then", { configurable: true, get() { seen++; return undefined; } });
  const r = await probe.echo({ value: { a: 1 } });
  const s = seen > 0;
  Object.defineProperty(Object.prototype, "then", { configurable: true, value: function (ok: any) { ok("hijacked"); } });
  const h = await probe.echo({ value: { b: 1 } });
  delete (Object.prototype as any).then;
  return { r, s, h };
}
