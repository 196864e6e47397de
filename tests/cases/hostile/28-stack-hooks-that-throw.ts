// ATTACK: Error.prepareStackTrace and Error.captureStackTrace that throw, loop or call tools; callsite must survive
// RIGHT: completed; every call is made, with its true line; errors of tools keep their names.
import { probe } from "rewind:tools";
export default async function main() {
  (Error as any).prepareStackTrace = () => { throw new Error("from prepareStackTrace"); };
  (Error as any).captureStackTrace = () => { throw new Error("from capture"); };
  const a = await probe.echo({ value: 1 });
  Object.defineProperty(Error, "stackTraceLimit", { get() { throw new Error("limit"); }, configurable: true });
  const b = await probe.echo({ value: 2 });
  const name = await probe.fail({ message: "m" }).catch((e: Error) => e.name);
  (globalThis as any).Error = class { constructor() { throw "no Error today"; } };
  const c = await probe.echo({ value: 3 });
  return { a, b, c, name };
}
