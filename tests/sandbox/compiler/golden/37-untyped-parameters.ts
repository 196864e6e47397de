import { github } from "rewind:tools";

export default async function main({ repo, days }) {
  const old = (issue) => issue.title.length > days;
  return (await github.list_issues({ repo })).filter(old);
}
