// Entry of the prelude of epoch 1. Its value is one function, known to the engine alone: called with the
// script's function as `this` it takes the script; called with nothing it delivers the events it pulls.
import { RealDate, TypeErrorClass, apply, defineFixed, freeze, hasOwn, newList, parseJson } from "./primordials.js";
import { ApprovalDeniedError, CancelledError, DeadlockError, LimitError, OutcomeUnknownError, TimeoutError, ToolError } from "./errors.js";
import { deliverOne, setEngine, setResultAt, start } from "./deliver.js";
import { installGlobals } from "./globals.js";
import { listOf, nearest, setHintSources } from "./hints.js";
import { makeModules } from "./tools.js";
import { progress } from "./console.js";
import { retry } from "./retry.js";
import { run, takeResult } from "./journal.js";
import { seedRandom } from "./random.js";
import { sleep } from "./timers.js";
import { waitForSignal } from "./signals.js";

const MAILBOX = 4_000_000_000;
const REJECTIONS = MAILBOX + 1;
const TEXT = 0;
const LIBRARY = 1;

const { __drain: drain, __sweep: sweep, __pull: pull, __weigh: weigh, __exhaust: exhaust } = globalThis;
const { __load0: loadUrl, __load1: loadEncoding, __load2: loadDigest } = globalThis;
const mailbox = globalThis[MAILBOX];
const rejections = globalThis[REJECTIONS];
const HOOKS = ["__init", "__drain", "__sweep", "__pull", "__weigh", "__exhaust", "__record", "__load0", "__load1", "__load2", "__load3"];
for (const name of [...HOOKS, MAILBOX, REJECTIONS]) delete globalThis[name];

const pulled = () => {
  pull();
  const text = mailbox[TEXT];
  mailbox[TEXT] = undefined;
  return text;
};

const library = (load) => () => {
  load();
  const value = mailbox[LIBRARY];
  mailbox[LIBRARY] = undefined;
  if (value === undefined) throw new RangeError("Maximum call stack size exceeded");
  return value;
};

setEngine({ __proto__: null, drain, sweep, rejections });
installGlobals(
  globalThis,
  { url: library(loadUrl), encoding: library(loadEncoding), digest: library(loadDigest) },
  { weigh, exhaust },
);

const runObject = {};
const rewind = freeze({
  __proto__: null,
  ApprovalDeniedError,
  CancelledError,
  DeadlockError,
  LimitError,
  OutcomeUnknownError,
  TimeoutError,
  ToolError,
  progress,
  retry,
  run: runObject,
  sleep,
  waitForSignal,
});

let script;
let setup;

const known = (module, wanted) => {
  const names = newList();
  for (const name in module) names[names.length++] = name;
  if (names.length === 0) return "it has none";
  const near = nearest(wanted, names, 1);
  return near.length > 0 ? `did you mean ${near[0]}? It has ${listOf(names)}` : `it has ${listOf(names)}`;
};

const importOf = (modules, { module, name }) => {
  const exports = module === "rewind" ? rewind : module === "rewind:tools" ? modules.tools : modules.workflows;
  if (name === "*") return exports;
  if (!hasOwn(exports, name)) throw new TypeErrorClass(`"${module}" has no export "${name}": ${known(exports, name)}`);
  return exports[name];
};

const parentOf = (event) => (hasOwn(event, "parent") && event.parent !== null ? event.parent.run : null);

const fillRun = (event) => {
  // A fork shows its script the first run of its line: what was computed from it stays true.
  const fork = hasOwn(event, "origin");
  const first = fork ? event.origin : event;
  const fields = {
    id: fork ? first.run : setup.run,
    namespace: setup.namespace,
    labels: freeze(hasOwn(first, "labels") ? first.labels : {}),
    deadline: new RealDate(first.deadline),
    parent: fork ? first.parent : parentOf(event),
    self: setup.run,
  };
  for (const name in fields) defineFixed(runObject, name, fields[name]);
  freeze(runObject);
};

const begin = (event) => {
  run.startedAt = event.time;
  seedRandom(event.seed);
  if (hasOwn(event, "limits")) {
    if (hasOwn(event.limits, "value_bytes")) run.valueBytesMax = event.limits.value_bytes;
    if (hasOwn(event.limits, "log_bytes")) run.logBytesLeft = event.limits.log_bytes;
  }
  fillRun(event);
  start(() => {
    const modules = makeModules(setup.tools);
    setHintSources(setup.tools, setup.params, rewind);
    const values = [];
    for (let i = 0; i < setup.params.length; i++) values[i] = importOf(modules, setup.params[i]);
    return apply(script, undefined, values);
  }, event.input.value);
};

function entry() {
  "use strict";
  if (typeof this === "function") {
    script = this;
    setup = parseJson(pulled());
    setResultAt(setup.result_at);
    return "";
  }
  const events = parseJson(pulled());
  for (let i = 0; i < events.length; i++) deliverOne(events[i], begin);
  return takeResult();
}

export default entry;
