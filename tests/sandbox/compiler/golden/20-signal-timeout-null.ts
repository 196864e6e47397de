import { waitForSignal } from "rewind";

export default async function main() {
  const answer = await waitForSignal<{ yes: boolean }>("approval", { timeout: "3d" });
  return answer.yes ? "approved" : "denied";
}
