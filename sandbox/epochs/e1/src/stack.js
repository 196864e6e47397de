// Stacks and callsites. The engine formats every stack through our hook, which shows frames of the script
// only; the hook and the frame limit sit on the real Error, which no script can reach.
import {
  RealError,
  WeakMapClass,
  apply,
  construct,
  define,
  defineOwn,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  isError,
  setPrototypeOf,
  weakGet,
  weakSet,
} from "./primordials.js";

const SCRIPT = "script.ts";
/** Lines that the wrapper puts before the script. */
const WRAPPER_LINES = 1;
const FRAMES_MAX = 16;

const captureFrames = RealError.captureStackTrace;
const sites = new WeakMapClass();
const stackGetter = getOwnPropertyDescriptor(new RealError(), "stack").get;

let wanted;
/** Callsite of code that runs on behalf of a script line no longer on the stack; see withSite. */
let inherited = null;

const inScript = (frame) => frame.getScriptNameOrSourceURL() === SCRIPT;

const renderFrame = (frame) => {
  const name = frame.getFunctionName();
  const place = `${SCRIPT}:${frame.getLineNumber() - WRAPPER_LINES}:${frame.getColumnNumber()}`;
  const prefix = frame.isAsync() ? "async " : frame.isConstructor() ? "new " : "";
  return name ? `\n    at ${prefix}${name} (${place})` : `\n    at ${prefix}${place}`;
};

const renderFrames = (frames) => {
  let text = "";
  for (let i = 0; i < frames.length; i++) if (inScript(frames[i])) text += renderFrame(frames[i]);
  return text;
};

const firstSite = (frames) => {
  for (let i = 0; i < frames.length; i++) {
    const frame = frames[i];
    if (inScript(frame)) {
      const line = frame.getLineNumber() - WRAPPER_LINES;
      return { __proto__: null, line, column: frame.getColumnNumber(), frames };
    }
  }
  return null;
};

/** `Name: message`, as a script sees it; what its getters throw is left out. */
const header = (error) => {
  let name = "Error";
  let message = "";
  try {
    const own = error.name;
    if (typeof own === "string") name = own;
  } catch {
    name = "Error";
  }
  try {
    const own = error.message;
    if (typeof own === "string") message = own;
  } catch {
    message = "";
  }
  return message === "" ? name : name === "" ? message : `${name}: ${message}`;
};

const hook = (error, frames) => {
  if (error === wanted) {
    wanted = undefined;
    return firstSite(frames);
  }
  const site = firstSite(frames);
  if (site !== null) weakSet(sites, error, site);
  return header(error) + renderFrames(frames);
};

/** Where the script called `below`: {line, column, frames} of the first script frame under it, or null. */
export const callsite = (below) => {
  const probe = { __proto__: null };
  captureFrames(probe, below);
  wanted = probe;
  return probe.stack ?? inherited;
};

/** The script's frames at a callsite, one a line. */
export const framesOf = (site) => (site === null ? "" : renderFrames(site.frames));

/** Run with a callsite to fall back on when no line of the script is on the stack. */
export const withSite = (site, run) => {
  const before = inherited;
  inherited = site;
  try {
    return run();
  } finally {
    inherited = before;
  }
};

/** Give an error that the prelude made the stack of the call that it belongs to. */
export const placeError = (error, site) => {
  if (site === null) return error;
  weakSet(sites, error, site);
  define(error, "stack", header(error) + renderFrames(site.frames));
  return error;
};

/** Whether a line of the script is known for the error; false also for what is no error. */
export const hasSite = (error) => !isError(error) || stackOf(error).site !== null;

/** The error's own stack text and site, without running any accessor of the script. */
export const stackOf = (error) => {
  let stack;
  try {
    const own = getOwnPropertyDescriptor(error, "stack");
    if (own !== undefined) stack = own.get === stackGetter ? apply(stackGetter, error, []) : own.value;
  } catch {
    stack = undefined;
  }
  return { __proto__: null, stack: typeof stack === "string" ? stack : undefined, site: weakGet(sites, error) ?? null };
};

function ScriptVisibleError(message, options) {
  const target = new.target === undefined ? ScriptVisibleError : new.target;
  return construct(RealError, arguments, target);
}

const captureStackTrace = (target, below) => {
  captureFrames(target, typeof below === "function" ? below : captureStackTrace);
};

const SUBCLASSES = [
  "AggregateError",
  "EvalError",
  "RangeError",
  "ReferenceError",
  "SuppressedError",
  "SyntaxError",
  "TypeError",
  "URIError",
];

export const ErrorClass = ScriptVisibleError;

// An ordinary function stands in the place of Error: what a script writes on it changes nothing. Done when this
// module is evaluated, before any class extends it.
defineOwn(RealError, "stackTraceLimit", { __proto__: null, value: FRAMES_MAX, writable: false, configurable: false });
defineOwn(RealError, "prepareStackTrace", { __proto__: null, value: hook, writable: false, configurable: false });
defineOwn(ScriptVisibleError, "prototype", { __proto__: null, value: RealError.prototype, writable: false });
define(ScriptVisibleError, "name", "Error");
define(ScriptVisibleError, "length", 1);
define(ScriptVisibleError, "isError", isError);
define(ScriptVisibleError, "captureStackTrace", captureStackTrace);
define(ScriptVisibleError, "stackTraceLimit", FRAMES_MAX);
define(RealError.prototype, "constructor", ScriptVisibleError);
for (const name of SUBCLASSES) {
  if (getPrototypeOf(globalThis[name]) === RealError) setPrototypeOf(globalThis[name], ScriptVisibleError);
}
define(globalThis, "Error", ScriptVisibleError);
