import { ToolError } from "rewind";
import { dns } from "rewind:tools";

class StepError extends Error {
  readonly step: string;
  constructor(step: string, message: string, options?: ErrorOptions) {
    super(`${step}: ${message}`, options);
    this.name = new.target.name;
    this.step = step;
  }
}
class ResolveError extends StepError {}

function chain(e: unknown, depth = 0): string[] {
  if (depth > 5 || e == null) return [];
  if (e instanceof AggregateError) return [`${e.name}(${e.errors.length})`, ...e.errors.flatMap((x) => chain(x, depth + 1))];
  if (e instanceof Error) return [`${e.name}: ${e.message}`, ...chain(e.cause, depth + 1)];
  return [String(e)];
}

const resolve = async (host: string, type: "A" | "AAAA" | "MX") => {
  try {
    return await dns.lookup({ host, type });
  } catch (cause) {
    throw new ResolveError(`lookup ${type}`, `no record for ${host}`, { cause });
  }
};

export default async function main(input: { hosts: string[] }) {
  const out: Record<string, string | string[]> = {};
  for (const host of input.hosts) {
    try {
      const { value } = await Promise.any((["A", "AAAA", "MX"] as const).map((t) => resolve(host, t)));
      out[host] = value;
    } catch (e) {
      out[host] = chain(e);
      const first = e instanceof AggregateError ? e.errors[0] : e;
      console.warn("failed", host, first instanceof ResolveError && first instanceof StepError, first.cause instanceof ToolError ? first.cause.code : "?");
    }
  }
  return out;
}
