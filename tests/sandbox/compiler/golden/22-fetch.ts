export default async function main(input: { url: string }) {
  const response = await fetch(input.url);
  return await response.json();
}
