import { waitForSignal } from "rewind";

export default async function main() {
  const x = await waitForSignal({ name: "go", timeout: "1d" });
  return x;
}
