import { CancelledError, sleep } from "rewind";
import { vm } from "rewind:tools";

// Rent, use, always give back; a timeout of our own.
async function withTimeout<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const signal = AbortSignal.timeout(ms);
  return await work(signal);
}

export default async function main(input: { size: string }) {
  const { id } = await vm.create({ size: input.size });
  const steps: string[] = ["created"];
  try {
    await withTimeout(60_000, async (signal) => {
      steps.push("started");
      signal.addEventListener("abort", () => steps.push(`abort ${signal.reason.name}`), { once: true });
      const { log } = await vm.exec({ id, cmd: "make" }, { signal });
      steps.push(log);
    });
  } catch (e) {
    steps.push(e instanceof CancelledError ? `cancelled by ${(e.cause as Error).name}` : `other ${e}`);
  } finally {
    await vm.destroy({ id });
    steps.push("destroyed");
  }
  await sleep(500);
  return steps;
}
