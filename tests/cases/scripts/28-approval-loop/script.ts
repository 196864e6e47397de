import { waitForSignal } from "rewind";
import { draft, publish } from "rewind:tools";

type Review = { verdict: "ok" } | { verdict: "changes"; notes: string[] } | { verdict: "drop"; reason?: string };

export default async function main(input: { topic: string; maxRounds?: number }) {
  const { topic, maxRounds = 3 } = input;
  const history: Array<Pick<Extract<Review, { verdict: "changes" }>, "notes"> & { round: number }> = [];
  let text = (await draft({ topic, notes: [] })).text;
  rounds: for (let round = 1; round <= maxRounds; round++) {
    const review = await waitForSignal<Review>(`review.${round}`, { timeout: "1w" });
    switch (review?.verdict) {
      case undefined:
        return { published: false, why: "nobody answered", round };
      case "ok":
        break rounds;
      case "drop":
        return { published: false, why: review!.verdict === "drop" ? (review as { reason?: string }).reason ?? "dropped" : "", round };
      case "changes": {
        const { notes } = review as Extract<Review, { verdict: "changes" }>;
        history.push({ round, notes });
        ({ text } = await draft({ topic, notes: history.flatMap((h) => h.notes) }));
      }
    }
  }
  const { url } = await publish({ text });
  return { published: true, url, history } as const;
}
