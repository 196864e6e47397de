import { sleep } from "rewind";

export default async function main() {
  await sleep(5, "minutes");
  await sleep();
}
