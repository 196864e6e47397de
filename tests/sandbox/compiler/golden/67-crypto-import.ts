import crypto from "crypto";

export default async function main() {
  return crypto.createHash("sha256").update("x").digest("hex");
}
