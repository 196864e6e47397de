import { github, crm } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const [a, b] = Promise.all([github.list_issues({ repo: input.repo }), crm.find_customer({ email: "x" })]);
  return [a.length, b.customer];
}
