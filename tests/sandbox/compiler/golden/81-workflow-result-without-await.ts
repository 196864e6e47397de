import { onboard } from "rewind:workflows";

export default async function main(input: { email: string }) {
  return onboard({ email: input.email }).account;
}
