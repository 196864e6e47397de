import { crm } from "rewind:tools";

export default async function main(input: { email: string }) {
  const found = JSON.parse(await crm.find_customer({ email: input.email }));
  return found.customer.name;
}
