import { sleep, wait_for_signal, gather } from "rewind";

export default async function main() {
  await sleep("1m");
  return await wait_for_signal("done");
}
