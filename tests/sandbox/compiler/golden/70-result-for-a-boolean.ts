import { ask_user } from "rewind:tools";

export default async function main() {
  const ok: boolean = await ask_user({ question: "go?" });
  return ok;
}
