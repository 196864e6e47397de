// Signals: matched here, at delivery. One sent before it is awaited is kept; waits of one name are served
// first come, first served.
import { MapClass, PromiseClass, TypeErrorClass, hasOwn, mapGet, mapSet, newList, rejectedWith, charCodeAt } from "./primordials.js";
import { addTimer, addWait, clearTimer, clearWait, endWait, never, run } from "./journal.js";
import { callsite } from "./stack.js";
import { cancelled } from "./errors.js";
import { checkSignal, followSignal, isAborted, reasonOf } from "./abort.js";
import { milliseconds } from "./duration.js";

/** name -> {waits, kept}: lists with a head; what is over is skipped. */
const queues = new MapClass();

const queueOf = (name) => {
  let queue = mapGet(queues, name);
  if (queue === undefined) {
    queue = { __proto__: null, waits: newList(), kept: newList() };
    queue.waits.head = 0;
    queue.kept.head = 0;
    mapSet(queues, name, queue);
  }
  return queue;
};

const fromHarness = (signal) => signal.sender === "key" || signal.sender === "member";
const fits = (wait, signal) => wait.from !== "harness" || fromHarness(signal);

/** First item that is not over and passes; moves the head past items that are over. */
const firstOf = (list, passes) => {
  while (list.head < list.length && list[list.head].over) {
    delete list[list.head];
    list.head++;
  }
  for (let i = list.head; i < list.length; i++) if (!list[i].over && passes(list[i])) return list[i];
  return undefined;
};

const satisfy = (wait, payload) => {
  endWait(wait);
  if (wait.follower !== undefined) wait.follower.run = undefined;
  if (!run.delivering) return; // the script has failed: nothing reaches it any more
  if (wait.timer !== undefined && payload !== undefined) clearTimer(wait.timer, null);
  wait.resolve(payload === undefined ? null : payload.value);
};

export const deliverSignal = (event) => {
  const sender = hasOwn(event, "actor") && event.actor !== null ? event.actor.kind : "token";
  const signal = { __proto__: null, sender, value: event.payload.value, over: false };
  const queue = queueOf(event.name);
  const wait = firstOf(queue.waits, (candidate) => fits(candidate, signal));
  if (wait === undefined) {
    queue.kept[queue.kept.length++] = signal;
  } else {
    satisfy(wait, signal);
  }
};

const NAME_MAX = 128;

/** What can be sent can be awaited: [A-Za-z0-9_.:-]{1,128}. */
const checkName = (name) => {
  let fine = typeof name === "string" && name !== "" && name.length <= NAME_MAX;
  for (let i = 0; fine && i < name.length; i++) {
    const c = charCodeAt(name, i);
    // 45 - 46 . 48-58 0-9 and : 65-90 A-Z 95 _ 97-122 a-z
    fine = c === 45 || c === 46 || (c >= 48 && c <= 58) || (c >= 65 && c <= 90) || c === 95 || (c >= 97 && c <= 122);
  }
  if (!fine) throw new TypeErrorClass("waitForSignal needs the name of a signal: 1 to 128 letters, digits and _ . : -");
};

const readOptions = (options) => {
  const { timeout, signal, from } = options ?? {};
  if (from !== undefined && from !== "harness") throw new TypeErrorClass('waitForSignal: `from` can only be "harness"');
  if (signal !== undefined) checkSignal(signal);
  return { __proto__: null, timeout: timeout === undefined ? undefined : milliseconds(timeout), signal, from };
};

const begin = (name, options, site, resolve, reject) => {
  let wait;
  let timer;
  if (options.timeout !== undefined) {
    timer = addTimer("signal_timeout", options.timeout, undefined, site, () => satisfy(wait, undefined), undefined);
  }
  wait = addWait(name, timer, options.from, site);
  wait.resolve = resolve;
  wait.reject = reject;
  const queue = queueOf(name);
  const kept = firstOf(queue.kept, (signal) => fits(wait, signal));
  if (kept !== undefined) {
    kept.over = true;
    satisfy(wait, kept);
    return;
  }
  queue.waits[queue.waits.length++] = wait;
  if (options.signal === undefined) return;
  wait.follower = followSignal(options.signal, (reason, aborted) => {
    if (!run.accepting || !clearWait(wait, aborted)) return;
    if (timer !== undefined) clearTimer(timer, aborted);
    reject(cancelled("the wait was aborted", site, { cause: reason }));
  });
};

export function waitForSignal(name, options) {
  const site = callsite(waitForSignal);
  let asked;
  try {
    checkName(name);
    asked = readOptions(options);
    if (asked.signal !== undefined && isAborted(asked.signal)) {
      return rejectedWith(cancelled("the wait was aborted", site, { cause: reasonOf(asked.signal) }));
    }
  } catch (error) {
    return rejectedWith(error);
  }
  if (run.cleaningUp) return rejectedWith(cancelled("the run was cancelled: a clean-up cannot wait", site));
  if (!run.accepting) return never();
  return new PromiseClass((resolve, reject) => begin(name, asked, site, resolve, reject));
}
