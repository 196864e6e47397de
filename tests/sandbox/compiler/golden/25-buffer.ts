export default async function main(input: { text: string }) {
  return Buffer.from(input.text).toString("base64");
}
