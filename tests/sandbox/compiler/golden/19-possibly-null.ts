import { crm } from "rewind:tools";

export default async function main(input: { email: string }) {
  const { customer } = await crm.find_customer({ email: input.email });
  await crm.update_customer({ id: customer.id, fields: { plan: "pro" } });
  return customer.name;
}
