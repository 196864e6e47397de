import type { Duration } from "rewind";
import * as rw from "rewind";
import * as tools from "rewind:tools";
import { billing as b } from "rewind:tools";

type Invoice = Awaited<ReturnType<typeof b.list_invoices>>["invoices"][number];
type ById = { [K in Invoice["id"]]?: Invoice };
type Overdue = Omit<Invoice, "paid"> & { days: number };
declare const __brand: unique symbol;
type Brand<T, B extends string> = T & { readonly [__brand]: B };
type Cents = Brand<number, "cents">;
const cents = (n: number) => Math.round(n * 100) as Cents;

const GRACE: Duration = "36h";
let counter = 0;

function isOverdue(this: void, i: Invoice, now: number): i is Invoice & { paid: false } {
  return !i.paid && Date.parse(i.due) < now;
}

function assertNever(x: never): never { throw new Error(`unexpected ${JSON.stringify(x)}`); }

export async function main({ now, mode }: { now: string; mode: "dry" | "send" }) {
  const { invoices } = await b.list_invoices({});
  const at = Date.parse(now);
  const overdue = invoices.filter((i) => isOverdue(i, at)).map<Overdue>(({ paid: _paid, ...rest }) => ({ ...rest, days: Math.ceil((at - Date.parse(rest.due)) / 864e5) }));
  const byId = overdue.reduce<ById>((acc, o) => ({ ...acc, [o.id]: invoices.find((i) => i.id === o.id)! }), {});
  switch (mode) {
    case "dry": return { would: overdue.length, total: overdue.reduce((n, o) => (n + cents(o.amount)) as Cents, 0 as Cents) };
    case "send":
      await rw.sleep(GRACE);
      for (const { id, days } of overdue) { counter++; await tools.billing.remind({ id, tone: days > 30 ? "firm" : "kind" }); }
      return { sent: counter, ids: Object.keys(byId), largest: overdue.toSorted((x, y) => y.amount - x.amount)[0]?.id };
    default: return assertNever(mode);
  }
}
