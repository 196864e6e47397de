import { crm } from "rewind:tools";

export default async function main(input: { email: string }) {
  const found = crm.find_customer({ email: input.email });
  if (found.customer === null) return "nobody";
  return found.customer.name;
}
