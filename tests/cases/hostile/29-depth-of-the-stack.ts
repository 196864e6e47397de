// ATTACK: measure how deep the stack is before and after a call; the same live and on replay
// RIGHT: completed; the depth found before and after calls is the same warm, evicted and replayed: it is an argument of the last call.
import { probe } from "rewind:tools";
function depth(): number { let n = 0; const f = () => { n++; f(); }; try { f(); } catch { return n; } return n; }
export default async function main() {
  const d: number[] = [depth()];
  await probe.echo({ value: 1 }); d.push(depth());
  await Promise.all([probe.echo({ value: 2 }), probe.echo({ value: 3 })]); d.push(depth());
  const viaCb = await new Promise<number>((r) => setTimeout(() => r(depth()), 1)); d.push(viaCb);
  let json = 0; { let o: any = {}; for (let i = 0; i < 100000; i++) o = { o }; try { JSON.stringify(o); } catch (e) { json = (e as Error) instanceof RangeError ? 1 : 2; } }
  await probe.echo({ value: d } as any);
  return { n: d.length, json };
}
