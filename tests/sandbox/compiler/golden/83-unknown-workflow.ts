import { onbord } from "rewind:workflows";

export default async function main(input: { email: string }) {
  return await onbord({ email: input.email });
}
