import { retry, sleep } from "rewind";
import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  await sleep({ seconds: 5 });
  return await retry(() => github.list_issues({ repo: input.repo }), { retries: 5, delay: "1s" });
}
