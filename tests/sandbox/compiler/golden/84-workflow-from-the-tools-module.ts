import { onboard } from "rewind:tools";

export default async function main(input: { email: string }) {
  return await onboard({ email: input.email });
}
