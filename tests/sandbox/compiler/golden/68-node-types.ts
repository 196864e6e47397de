export default async function main() {
  const timer: NodeJS.Timeout = setInterval(() => {}, 1000);
  clearInterval(timer);
}
