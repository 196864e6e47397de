export default async function main(input: { repo: string }) {
  const found: string = [];
  const all = [];
  all.push(1);
  return { found, all };
}
