const fs = require("fs");

export default async function main() {
  return fs.readFileSync("/etc/hosts", "utf8");
}
