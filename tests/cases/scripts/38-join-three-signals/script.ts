import { sleep, waitForSignal } from "rewind";
import { deploy } from "rewind:tools";

const TEAMS = ["web", "api", "data"] as const;
type Team = (typeof TEAMS)[number];
type Vote = { ok: boolean; note?: string };

export default async function main(input: { version: string; patience: string }) {
  const seen: Partial<Record<Team, boolean>> = {};
  const votes = Promise.all(
    TEAMS.map(async (team) => {
      const { ok, note } = await waitForSignal<Vote>(`vote-${team}`);
      seen[team] = ok;
      if (note) console.info(team, note);
      return { team, ok };
    }),
  );
  const outcome = await Promise.race([votes, sleep(input.patience).then(() => "timeout" as const)]);
  if (outcome === "timeout") {
    const missing = TEAMS.filter((t) => !(t in seen));
    await deploy.abort({ version: input.version, missing });
    return { released: false, missing };
  }
  const against = outcome.filter((v) => !v.ok).map((v) => v.team);
  if (against.length) return { released: false, against };
  const { at } = await deploy.release({ version: input.version });
  return { released: true, at, seen };
}
