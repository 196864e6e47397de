import { fs } from "rewind:tools";

export default async function main() {
  const file = await fs.read_file({ path: "data.json" });
  const rows = file.rows.map((row) => row.value * 2);
  return rows.lenght;
}
