import { fs } from "rewind:tools";

export default async function main(input: { path: string }) {
  const { lines } = await fs.read_file({ path: input.path });
  const words = new Set(lines.map((line) => line.word));
  for (const word of words) console.log(word.toUpperCase());
  try {
    return [...words].sort((a, b) => a.localeCompare(b));
  } catch (error) {
    return error.message;
  }
}
