import { calendar } from "rewind:tools";

class Money {
  constructor(cents: number, currency: string) { this.cents = cents; this.currency = currency; }
  cents: number;
  currency: string;
  toJSON() { return { amount: (this.cents / 100).toFixed(2), currency: this.currency }; }
}

export default async function main(input: { start: string; days: number }) {
  const start = new Date(input.start);
  const end = new Date(start.getTime() + input.days * 86_400_000);
  const event = await calendar.create({
    title: "Offsite", start, end, price: new Money(129_950, "EUR"), url: new URL("https://example.com/a b?x=1"),
    skip: undefined, nothing: null, weights: [NaN, -0, Infinity], fn: () => 1, tags: new Set(["x"]), when: { toJSON: () => "noon" },
  });
  const dates = await calendar.free({ between: [start, end] });
  return { id: event.id, days: dates.slots.map((s) => new Date(s).getUTCDay()), end: end, price: new Money(1, "USD"), missing: undefined };
}
