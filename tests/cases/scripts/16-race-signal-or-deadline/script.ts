import { sleep, waitForSignal } from "rewind";
import { crm, mail } from "rewind:tools";

type Outcome =
  | { type: "replied"; at: number; text: string }
  | { type: "bounced"; code: number }
  | { type: "silence" };

// Send, then whatever comes first: a reply, a bounce, or two reminders that go unanswered.
export default async function main(input: { lead: string; reminders: string[] }): Promise<{ outcome: Outcome; sent: number }> {
  const lead = await crm.get_lead({ id: input.lead });
  let sent = 0;
  const reply = waitForSignal<{ text: string }>("reply").then<Outcome>(({ text }) => ({ type: "replied", at: Date.now(), text }));
  const bounce = waitForSignal<{ code: number }>("bounce").then<Outcome>((b) => ({ type: "bounced", ...b }));

  let outcome: Outcome | undefined;
  for (const [n, delay] of input.reminders.entries()) {
    await mail.send({ to: lead.email, subject: n === 0 ? `Hello ${lead.name.split(" ")[0]}` : `Re: Hello (${n})` });
    sent++;
    const winner = await Promise.race([reply, bounce, sleep(delay).then(() => null)]);
    if (winner) {
      outcome = winner;
      break;
    }
    console.info(`no answer after ${delay}`, n, sent);
  }
  outcome ??= { type: "silence" };
  await crm.update_lead({ id: input.lead, status: outcome.type, ...(outcome.type === "replied" && { note: outcome.text.trim().slice(0, 40) }) });
  return { outcome: outcome.type === "replied" ? { ...outcome, at: 0 } : outcome, sent };
}
