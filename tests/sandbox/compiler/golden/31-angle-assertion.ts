import { fs } from "rewind:tools";

export default async function main() {
  const text = <string>await fs.read_file({ path: "notes.md" });
  return text.length;
}
