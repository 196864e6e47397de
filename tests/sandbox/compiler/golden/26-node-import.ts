import { readFile } from "node:fs/promises";

export default async function main(input: { path: string }) {
  return await readFile(input.path, "utf8");
}
