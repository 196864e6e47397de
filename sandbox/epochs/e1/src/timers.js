// Durable timers: sleep, and the web's setTimeout and setInterval.
import {
  MapClass,
  NumberOf,
  PromiseClass,
  TypeErrorClass,
  apply,
  dateTime,
  mapDelete,
  mapGet,
  mapSet,
  max,
  rejectedWith,
} from "./primordials.js";
import { addTimer, clearTimer, findTimer, never, reportUncaught, run } from "./journal.js";
import { callsite } from "./stack.js";
import { cancelled } from "./errors.js";
import { milliseconds } from "./duration.js";

const delayOf = (duration) => {
  let at;
  try {
    at = dateTime(duration);
  } catch {
    return { __proto__: null, delay: milliseconds(duration), at: undefined };
  }
  // An invalid Date acts as NaN does: as 0.
  if (at !== at) return { __proto__: null, delay: 0, at: undefined };
  return { __proto__: null, delay: max(at - run.now, 0), at };
};

export const sleepFrom = (duration, site) => {
  let asked;
  try {
    asked = delayOf(duration);
  } catch (error) {
    return rejectedWith(error);
  }
  if (run.cleaningUp) return rejectedWith(cancelled("the run was cancelled: a clean-up cannot sleep", site));
  if (!run.accepting) return never();
  return new PromiseClass((resolve, reject) => {
    addTimer("sleep", asked.delay, asked.at, site, () => resolve(), reject);
  });
};

export function sleep(duration) {
  return sleepFrom(duration, callsite(sleep));
}

/** Interval's handle (its first timer's number) -> the timer of its next tick. */
const intervals = new MapClass();

const callBack = (callback, args) => {
  try {
    apply(callback, undefined, args);
  } catch (error) {
    reportUncaught(error);
  }
};

const webDelay = (delay) => {
  const ms = NumberOf(delay);
  return ms > 0 ? milliseconds(ms) : 0;
};

const checkCallback = (name, callback) => {
  if (typeof callback !== "function") throw new TypeErrorClass(`${name} needs a function to call`);
};

export function setTimeout(callback, delay, ...args) {
  checkCallback("setTimeout", callback);
  const ms = webDelay(delay);
  if (!run.accepting || run.cleaningUp) return 0;
  return addTimer("timeout", ms, undefined, callsite(setTimeout), () => callBack(callback, args), undefined).n;
}

export function setInterval(callback, delay, ...args) {
  checkCallback("setInterval", callback);
  const ms = webDelay(delay);
  if (!run.accepting || run.cleaningUp) return 0;
  const site = callsite(setInterval);
  let handle = 0;
  // Re-armed before its callback, so that the callback can clear it; missed ticks are not made up.
  const arm = () => {
    const timer = addTimer("interval", ms, undefined, site, tick, undefined);
    if (handle === 0) handle = timer.n;
    mapSet(intervals, handle, timer);
  };
  const tick = () => {
    arm();
    callBack(callback, args);
  };
  arm();
  return handle;
}

const clear = (handle, site) => {
  const n = NumberOf(handle);
  const interval = mapGet(intervals, n);
  if (interval !== undefined) {
    mapDelete(intervals, n);
    if (run.accepting) clearTimer(interval, site);
    return;
  }
  const timer = findTimer(n);
  if (timer !== undefined && timer.why === "timeout" && run.accepting) clearTimer(timer, site);
};

export function clearTimeout(handle) {
  if (handle !== undefined) clear(handle, callsite(clearTimeout));
}

export function clearInterval(handle) {
  if (handle !== undefined) clear(handle, callsite(clearInterval));
}
