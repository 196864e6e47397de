// retry(fn, options): part of module `rewind`, built on what scripts have themselves.
import { TypeErrorClass, min } from "./primordials.js";
import { CancelledError } from "./errors.js";
import { callsite, withSite } from "./stack.js";
import { milliseconds } from "./duration.js";
import { sleepFrom } from "./timers.js";

const BACKOFF_MS = 1_000;
const BACKOFF_MAX_MS = 300_000;

const backoffOf = (backoff, attempt) => {
  if (typeof backoff === "function") return milliseconds(backoff(attempt));
  const first = backoff === undefined ? BACKOFF_MS : milliseconds(backoff);
  return min(first * 2 ** (attempt - 1), BACKOFF_MAX_MS);
};

const attempts = async (fn, { limit, backoff, on }, site) => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await withSite(site, () => fn(attempt));
    } catch (error) {
      if (attempt >= limit || error instanceof CancelledError || (on !== undefined && !on(error))) throw error;
      await sleepFrom(backoffOf(backoff, attempt), site);
    }
  }
};

export async function retry(fn, options) {
  const site = callsite(retry);
  const { attempts: limit = 3, backoff, on } = options ?? {};
  if (typeof fn !== "function") throw new TypeErrorClass("retry needs a function that makes the attempt");
  if (!(limit >= 1)) throw new TypeErrorClass("retry: `attempts` is a number from 1");
  if (on !== undefined && typeof on !== "function") throw new TypeErrorClass("retry: `on` is a function of the error");
  return attempts(fn, { limit, backoff, on }, site);
}
