import { sleep, waitForSignal } from "rewind";
import { chat } from "rewind:tools";

export default async function main(input: { user: string }) {
  const turns: (string | null)[] = [];
  for (let i = 0; i < 3; i++) {
    await chat.say({ user: input.user, text: i === 0 ? "Name?" : `${turns.at(-1) ?? "Nobody"}, more?` });
    const answer = await waitForSignal<{ text: string }>("answer", { timeout: "10m" });
    turns.push(answer?.text ?? null);
    if (answer === null) await sleep("30m");
  }
  const ac = new AbortController();
  setTimeout(() => ac.abort(new Error("enough")), 60_000);
  const last = await waitForSignal<{ text: string }>("answer", { signal: ac.signal }).catch((e: Error) => `${e.name}: ${(e.cause as Error).message}`);
  return { turns, last };
}
