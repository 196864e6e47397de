import { audit, db } from "rewind:tools";

// A forgotten await: the audit entry fails and nobody listens.
export default async function main(input: { ids: number[] }) {
  const done: number[] = [];
  for (const id of input.ids) {
    audit.write({ event: "delete", id });
    await db.remove({ id });
    done.push(id);
  }
  return done;
}
