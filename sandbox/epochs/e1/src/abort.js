// AbortController and AbortSignal; aborting reaches calls and waits before any listener of the script.
import { TypeErrorClass, apply, define, isArray, newList } from "./primordials.js";
import { addTimer, reportUncaught, run } from "./journal.js";
import { DOMException, TimeoutError } from "./errors.js";
import { Event, EventTarget, fireEvent, setOnAbort } from "./events.js";
import { callsite, placeError } from "./stack.js";
import { milliseconds } from "./duration.js";

/** How many followers a signal keeps before it looks for those that are over. */
const COMPACT_AT = 32;

let making = false;

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = undefined;
  #followers = newList();
  #compactAt = COMPACT_AT;
  #handler = null;

  constructor() {
    super();
    if (!making) throw new TypeErrorClass("make an AbortSignal with new AbortController()");
  }

  get aborted() {
    return this.#aborted;
  }
  get reason() {
    return this.#reason;
  }
  get onabort() {
    return this.#handler;
  }
  set onabort(handler) {
    this.#handler = typeof handler === "function" ? handler : null;
  }
  /** Drop followers whose call or wait is over, so that a signal used in a long loop stays small. */
  #compact() {
    const followers = this.#followers;
    const kept = newList();
    for (let i = 0; i < followers.length; i++) if (followers[i].run !== undefined) kept[kept.length++] = followers[i];
    this.#followers = kept;
    this.#compactAt = kept.length * 2 + COMPACT_AT;
  }
  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }

  static abort(reason) {
    const signal = newSignal();
    abortNow(signal, reason === undefined ? abortReason(callsite(AbortSignal.abort)) : reason, null);
    return signal;
  }

  static timeout(duration) {
    const ms = milliseconds(duration);
    const site = callsite(AbortSignal.timeout);
    const signal = newSignal();
    if (run.accepting && !run.cleaningUp) {
      const fire = () => abortNow(signal, placeError(new TimeoutError(`timed out after ${ms} ms`), site), null);
      addTimer("abort_timeout", ms, undefined, site, fire, undefined);
    }
    return signal;
  }

  static any(signals) {
    const result = newSignal();
    const sources = newList();
    if (isArray(signals)) for (let i = 0; i < signals.length; i++) sources[sources.length++] = signals[i];
    else for (const source of signals) sources[sources.length++] = source;
    for (let i = 0; i < sources.length; i++) if (!isSignal(sources[i])) throw new TypeErrorClass("AbortSignal.any needs AbortSignals");
    for (let i = 0; i < sources.length; i++) {
      if (isAborted(sources[i])) {
        abortNow(result, reasonOf(sources[i]), null);
        return result;
      }
    }
    for (let i = 0; i < sources.length; i++) followSignal(sources[i], (reason, site) => abortNow(result, reason, site));
    return result;
  }

  static hidden = {
    is: (value) => typeof value === "object" && value !== null && #aborted in value,
    aborted: (signal) => signal.#aborted,
    reason: (signal) => signal.#reason,
    follow: (signal, run) => {
      const follower = { __proto__: null, run };
      if (signal.#followers.length >= signal.#compactAt) signal.#compact();
      signal.#followers[signal.#followers.length++] = follower;
      return follower;
    },
    abort: (signal, reason, site) => {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason;
      const followers = signal.#followers;
      signal.#followers = newList();
      for (let i = 0; i < followers.length; i++) if (followers[i].run !== undefined) followers[i].run(reason, site);
      if (signal.#handler !== null) {
        try {
          apply(signal.#handler, signal, [new Event("abort")]);
        } catch (error) {
          reportUncaught(error);
        }
      }
      fireEvent(signal, "abort");
    },
  };
}

const { is: isSignal, aborted: isAborted, reason: reasonOf, follow, abort: abortNow } = AbortSignal.hidden;
delete AbortSignal.hidden;

const newSignal = () => {
  making = true;
  try {
    return new AbortSignal();
  } finally {
    making = false;
  }
};

const abortReason = (site) => placeError(new DOMException("the operation was aborted", "AbortError"), site);

export const checkSignal = (signal) => {
  if (!isSignal(signal)) throw new TypeErrorClass("`signal` must be an AbortSignal");
};

/** Call `run(reason, site)` when the signal aborts; setting the answer's `run` to undefined stops following. */
export const followSignal = (signal, run) => {
  checkSignal(signal);
  return follow(signal, run);
};
export { isSignal, isAborted, reasonOf };
setOnAbort((signal, run) => followSignal(signal, run));

export class AbortController {
  #signal = newSignal();

  get signal() {
    return this.#signal;
  }
  abort(reason) {
    const site = callsite(abortMethod);
    abortNow(this.#signal, reason === undefined ? abortReason(site) : reason, site);
  }
}

const { abort: abortMethod } = AbortController.prototype;

define(AbortSignal.prototype, Symbol.toStringTag, "AbortSignal");
define(AbortController.prototype, Symbol.toStringTag, "AbortController");
