import { github, slack } from "rewind:tools";

export default async function main(input: { repo: string }) {
  await slack.post_message("#general", "hello");
  return await github.list_issues(input.repo);
}
