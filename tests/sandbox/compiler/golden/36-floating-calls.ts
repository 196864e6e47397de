import { sleep } from "rewind";
import { github, slack } from "rewind:tools";

export default async function main(input: { repo: string; numbers: number[] }) {
  slack.post_message({ channel: "#ops", text: "starting" });
  sleep("1m");
  input.numbers.forEach(async (number) => {
    await github.close_issue({ repo: input.repo, number });
  });
  void slack.post_message({ channel: "#ops", text: "on purpose" });
  return "done";
}
