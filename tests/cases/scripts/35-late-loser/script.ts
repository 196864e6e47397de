import { sleep, waitForSignal } from "rewind";
import { ops } from "rewind:tools";

export default async function main() {
  let state = "idle";
  const log: string[] = [];
  const set = (s: string) => { state = s; log.push(`${s}`); };
  const win = await Promise.race([
    waitForSignal<{ v: number }>("go").then((x) => { set(`signal ${x.v}`); return "signal"; }),
    sleep("10m").then(() => { set("timer"); return "timer"; }),
    ops.ping({ n: 1 }).then(() => { set("ping"); return "ping"; }),
  ]);
  await ops.ping({ n: 2 });
  await sleep("20m");
  setTimeout(() => set("never"), 3_600_000);
  return { win, state, log };
}
