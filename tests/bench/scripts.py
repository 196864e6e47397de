"""The scripts of the workloads."""

STEPS = """\
import { echo } from "rewind:tools";

export default async function main(input: { steps: number }) {
  for (let i = 0; i < input.steps; i++) await echo({ i });
  return input.steps;
}
"""
FAN = """\
import { echo } from "rewind:tools";

export default async function main(input: { calls: number }) {
  const results = await Promise.all(Array.from({ length: input.calls }, (_, i) => echo({ i })));
  return results.length;
}
"""
WAIT = """\
import { waitForSignal } from "rewind";

export default async function main() {
  return await waitForSignal("go");
}
"""
STEPS_THEN_SIGNALS = """\
import { waitForSignal } from "rewind";
import { echo } from "rewind:tools";

export default async function main(input: { steps: number; signals: number }) {
  for (let i = 0; i < input.steps; i++) await echo({ i });
  for (let i = 0; i < input.signals; i++) {
    await waitForSignal("go");
    await echo({ i: input.steps + i });
  }
  return input.signals;
}
"""
# Steps one by one, then many at once until the journal is long, then steps one by one again.
LONG = """\
import { echo } from "rewind:tools";

export default async function main(input: { measured: number; filler: number; width: number }) {
  for (let i = 0; i < input.measured; i++) await echo({ i });
  for (let done = 0; done < input.filler; done += input.width) {
    await Promise.all(Array.from({ length: input.width }, () => echo({ i: -1 })));
  }
  for (let i = 0; i < input.measured; i++) await echo({ i: 1_000_000 + i });
  return null;
}
"""
TIMERS = """\
import { sleep } from "rewind";

export default async function main(input: { timers: number; at: number }) {
  const at = new Date(input.at);
  await Promise.all(Array.from({ length: input.timers }, () => sleep(at)));
  return input.timers;
}
"""
# A journal of a given length, then a signal, then one more call.
RECORDED_THEN_SIGNAL = """\
import { waitForSignal } from "rewind";
import { echo } from "rewind:tools";

export default async function main(input: { calls: number; width: number }) {
  for (let done = 0; done < input.calls; done += input.width) {
    await Promise.all(Array.from({ length: input.width }, () => echo({ i: -1 })));
  }
  await waitForSignal("go");
  await echo({ i: 1 });
  return null;
}
"""
