// The script's side of the journal: what it emitted, what is pending, and how far the run has come.
// Everything that decides order or numbers is here, so it is versioned by the epoch.
import { MapClass, PromiseClass, jsonOf, mapDelete, mapForEach, mapGet, mapSet, mapSize, newList } from "./primordials.js";

export const RUNNING = "running";
export const RETURNING = "returning";
export const FAILING = "failing";
export const CANCELLING = "cancelling";
export const ENDED = "ended";

const CALL = 0;
const TIMER = 1;
const WAIT = 2;

export const run = {
  __proto__: null,
  stage: RUNNING,
  /** Logical time: that of the last delivered event, ms. */
  now: 0,
  startedAt: 0,
  /** Seq of the event being delivered. */
  cause: 0,
  delivered: -1,
  /** Whether the script may emit commands now. */
  accepting: true,
  /** Whether the one drain after a cancel is running. */
  cleaningUp: false,
  /** Whether outcomes still reach the script. */
  delivering: true,
  /** Scheduled calls without a delivered outcome, aborted ones included: they hold the run's end. */
  outstanding: 0,
  valueBytesMax: 16 * 1024 * 1024,
  logBytesLeft: 1024 * 1024,
};

let emitted = "";
let waitsDone = "";
/** What can still happen, in the order in which the script made it; keyed by number * 4 + kind. */
const pending = new MapClass();
const last = { __proto__: null, [CALL]: 0, [TIMER]: 0, [WAIT]: 0 };

/** Exceptions that no handler saw (timer callbacks, listeners), in order. */
export const uncaught = newList();
export const reportUncaught = (error) => {
  uncaught[uncaught.length++] = error;
};

const siteText = (site) => (site === null ? "" : `,"line":${site.line},"column":${site.column}`);

/** `fields` is JSON text that begins with a comma, or empty. */
export const emit = (type, fields, site, cause = run.cause) => {
  const text = `{"cause":${cause},"type":"${type}"${fields}${siteText(site)}}`;
  emitted = emitted === "" ? text : `${emitted},${text}`;
};

export const takeResult = () => {
  const text = `{"commands":[${emitted}],"waits_done":[${waitsDone}],"stage":"${run.stage}","delivered":${run.delivered}}`;
  emitted = "";
  waitsDone = "";
  return text;
};

export const pendingCount = () => mapSize(pending);

const add = (kind, record) => {
  const n = ++last[kind];
  record.n = n;
  mapSet(pending, n * 4 + kind, record);
  return record;
};

const take = (kind, n) => {
  const key = n * 4 + kind;
  const record = mapGet(pending, key);
  if (record !== undefined) mapDelete(pending, key);
  return record;
};

/** Reject everything pending, in the order in which the script made it. */
export const rejectPending = (errorFor) => {
  const records = newList();
  mapForEach(pending, (record, key) => {
    records[records.length++] = record;
    mapDelete(pending, key);
  });
  for (let i = 0; i < records.length; i++) {
    const record = records[i];
    record.over = true;
    if (record.reject !== undefined) record.reject(errorFor(record.site));
  }
};

const NEVER = () => undefined;
/** For calls made when nothing can be recorded any more, or whose outcome is never delivered. */
export const never = () => new PromiseClass(NEVER);

// -- Calls

export const addCall = (tool, args, timeoutMs, site) => {
  const call = add(CALL, { __proto__: null, tool, site, resolve: undefined, reject: undefined, over: false });
  run.outstanding++;
  const timeout = timeoutMs === undefined ? "" : `,"timeout_ms":${timeoutMs}`;
  emit("schedule_tool_call", `,"call":${call.n},"tool":${jsonOf(tool)},"args":${jsonOf(args)}${timeout}`, site);
  return call;
};

/** A call of the clean-up: recorded, its outcome not delivered. */
export const addCleanUpCall = (tool, args, timeoutMs, site) => {
  take(CALL, addCall(tool, args, timeoutMs, site).n);
};

export const takeCall = (n) => take(CALL, n);

export const abortCall = (call, site) => {
  if (take(CALL, call.n) === undefined) return false;
  call.over = true;
  emit("tool_call_cancelled", `,"call":${call.n}`, site);
  return true;
};

// -- Timers

/** `fire` runs when the timer fires; `reject` (optional) when the run is cancelled. */
export const addTimer = (why, delay, at, site, fire, reject) => {
  const timer = add(TIMER, { __proto__: null, why, site, fire, reject, over: false });
  const fields = `,"timer":${timer.n},"delay":${delay === 0 ? 0 : delay},"at":${at === undefined ? "null" : at},"why":"${why}"`;
  emit("start_timer", fields, site);
  return timer;
};

export const takeTimer = (n) => take(TIMER, n);
export const findTimer = (n) => mapGet(pending, n * 4 + TIMER);

export const clearTimer = (timer, site) => {
  if (take(TIMER, timer.n) === undefined) return;
  timer.over = true;
  emit("timer_cleared", `,"timer":${timer.n}`, site);
};

// -- Waits

export const addWait = (name, timer, from, site) => {
  const wait = add(WAIT, { __proto__: null, name, timer, from, site, resolve: undefined, reject: undefined, over: false });
  const fields = `,"wait":${wait.n},"name":${jsonOf(name)},"timer":${timer === undefined ? "null" : timer.n},"from":${from === undefined ? "null" : jsonOf(from)}`;
  emit("signal_awaited", fields, site);
  return wait;
};

/** The wait is satisfied, by a signal or by its timeout. */
export const endWait = (wait) => {
  take(WAIT, wait.n);
  wait.over = true;
  waitsDone = waitsDone === "" ? `${wait.n}` : `${waitsDone},${wait.n}`;
};

export const clearWait = (wait, site) => {
  if (take(WAIT, wait.n) === undefined) return false;
  wait.over = true;
  emit("signal_wait_cleared", `,"wait":${wait.n}`, site);
  return true;
};
