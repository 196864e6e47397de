export default async function main() {
  console.log(process.env.TOKEN);
  return globalThis.process.version;
}
