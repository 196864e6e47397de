export default async function main() {
  setTimeout("console.log(1)", 1000);
  await new Promise((resolve) => setTimeout(resolve, "5s"));
}
