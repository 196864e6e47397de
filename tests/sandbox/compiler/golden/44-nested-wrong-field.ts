import { crm } from "rewind:tools";

export default async function main(input: { id: string }) {
  await crm.update_customer({ id: input.id, fields: { plan: "enterprise", tag: ["vip"] } });
  await crm.update_customer({ id: input.id, name: "Ada" });
}
