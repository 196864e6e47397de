// The run as the prelude sees it: one event after another, a drain and a judgement after each.
import { NumberOf, PromiseClass, PromisePrototype, TypeErrorClass, apply, defineOwn, getPrototypeOf, hasOwn, jsonOf, ownKeys, promiseThen, watch } from "./primordials.js";
import {
  CANCELLING,
  ENDED,
  FAILING,
  RETURNING,
  RUNNING,
  emit,
  pendingCount,
  rejectPending,
  run,
  takeCall,
  takeTimer,
  uncaught,
} from "./journal.js";
import { OUTPUT, encode, refuseSize, utf8Bytes } from "./encode.js";
import { DeadlockError, cancelled, errorOfCall } from "./errors.js";
import { failureText } from "./failure.js";
import { deliverSignal } from "./signals.js";
import { hasSite, placeError } from "./stack.js";
import { hintFor } from "./hints.js";

const UNHANDLED = "rejected without a handler: no await, catch or then saw this promise fail";
const UNCAUGHT = "thrown in a timer, listener or callback that nothing could catch";

/** Set by main.js: {drain, sweep, rejections}, the engine's hooks. */
let engine;
export const setEngine = (hooks) => {
  engine = hooks;
};

let resultAt = null;
/** Where main gives its result. */
export const setResultAt = ({ line, column }) => {
  resultAt = { __proto__: null, line, column, frames: [] };
};

let failure;
let output;
let endReason;
let failedBy = 0;

const fail = (error, note) => {
  if (failure === undefined) failure = { __proto__: null, error, note, text: undefined };
};

// -- main

const returned = (value) => {
  if (run.stage !== RUNNING) return;
  try {
    output = encode(OUTPUT, "", "output", value) ?? "null";
    if (output.length > run.valueBytesMax / 3) {
      const bytes = utf8Bytes(output);
      if (bytes > run.valueBytesMax) refuseSize("", "output", bytes, run.valueBytesMax);
    }
    run.stage = RETURNING;
  } catch (error) {
    fail(hasSite(error) ? error : placeError(error, resultAt));
  }
};

const threw = (error) => {
  if (run.stage === RUNNING) fail(error);
};

/** A promise is watched as such, whatever the script did to `then`; any other thenable by its own. */
const settle = (result) => {
  try {
    if (typeof result === "object" && result !== null && getPrototypeOf(result) === PromisePrototype) {
      defineOwn(result, "constructor", { __proto__: null, value: undefined });
    }
  } catch {
    // A frozen one keeps its own.
  }
  try {
    promiseThen(result, returned, threw);
  } catch {
    watch(new PromiseClass((resolve) => resolve(result)), returned, threw);
  }
};

/** `make` gives the promise of the script's module body, which gives `main`. */
export const start = (make, input) => {
  let body;
  try {
    body = make();
  } catch (error) {
    threw(error);
    return;
  }
  watch(
    body,
    (main) => {
      let result;
      try {
        if (typeof main !== "function") throw new TypeErrorClass("the default export is not a function that takes the run's input");
        result = apply(main, undefined, [input]);
      } catch (error) {
        threw(error);
        return;
      }
      settle(result);
    },
    threw,
  );
};

// -- Events

const completeCall = (event) => {
  if (run.outstanding > 0) run.outstanding--;
  if (!run.delivering) return;
  const call = takeCall(event.call);
  if (call === undefined) return; // aborted by the script
  call.over = true;
  if (call.follower !== undefined) call.follower.run = undefined;
  if (hasOwn(event, "result") && event.result !== null) call.resolve(event.result.value);
  else call.reject(errorOfCall(call.tool, event.error, call.site));
};

const fireTimer = (event) => {
  const timer = takeTimer(event.timer);
  if (timer === undefined) return; // cleared
  timer.over = true;
  // Of a script that has failed only the books are kept: what still waits, as the fold of the journal says.
  if (run.delivering || timer.why === "signal_timeout") timer.fire();
};

const requestCancel = (event) => {
  const limit = event.reason === "limit";
  if (run.stage !== RUNNING || limit || failure !== undefined) {
    // Settled already, or ended from outside: outcomes are only counted from here on.
    run.delivering = false;
    run.accepting = false;
    if (limit) run.stage = CANCELLING;
    return;
  }
  run.stage = CANCELLING;
  endReason = event.reason;
  run.cleaningUp = true;
  const message = `the run was cancelled (${event.reason})`;
  rejectPending((site) => cancelled(message, site));
};

// -- After each event

const firstRejection = () => {
  const keys = ownKeys(engine.rejections);
  return keys.length === 0 ? undefined : { __proto__: null, reason: engine.rejections[NumberOf(keys[0]) + 1] };
};

const judgeFailure = () => {
  if (failure === undefined && uncaught.length > 0) fail(uncaught[0], UNCAUGHT);
  if (failure === undefined) {
    const rejection = firstRejection();
    if (rejection !== undefined) fail(rejection.reason, UNHANDLED);
  }
  if (failure === undefined && run.stage === RUNNING && pendingCount() === 0) {
    fail(new DeadlockError("the script waits for something that can never happen: no call, timer or signal wait is pending"));
  }
  if (failure === undefined) return;
  run.stage = FAILING;
  run.delivering = false;
  run.accepting = false;
  failedBy = run.cause;
  failure.text = failureText(failure.error, failure.note, hintFor);
  // What getters of the error queued runs out here, unheard, inside this event's CPU budget.
  engine.sweep();
};

const judge = () => {
  if (run.stage === CANCELLING) {
    run.cleaningUp = false;
    run.delivering = false;
    run.accepting = false;
    return;
  }
  judgeFailure();
};

const finish = () => {
  if (run.outstanding > 0) return;
  if (run.stage === RETURNING) emit("complete_run", `,"output":${jsonOf(output)}`, null);
  else if (run.stage === FAILING) emit("fail_run", `,"error":${failure.text}`, null, failedBy);
  else if (run.stage === CANCELLING && endReason !== undefined) emit("cancel_run", `,"reason":${jsonOf(endReason)}`, null);
  else return;
  run.accepting = false;
  run.delivering = false;
  run.stage = ENDED;
};

/** Deliver one event. `begin` starts the script at run_started. */
export const deliverOne = (event, begin) => {
  run.cause = event.seq;
  run.delivered = event.seq;
  if (run.stage === ENDED) return;
  if (run.delivering) run.now = event.time;
  switch (event.type) {
    case "run_started":
      begin(event);
      break;
    case "tool_call_completed":
      completeCall(event);
      break;
    case "timer_fired":
      fireTimer(event);
      break;
    case "signal_received":
      deliverSignal(event);
      break;
    case "cancel_requested":
      requestCancel(event);
      break;
  }
  engine.drain();
  if (run.delivering) judge();
  finish();
};
