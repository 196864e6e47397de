// What a script finds on its global object: the language, less what would differ between two executions,
// plus the web globals. Big libraries are compiled when a script first touches them.
import { cryptoObject, random } from "./random.js";
import { AbortController, AbortSignal } from "./abort.js";
import { Event, EventTarget } from "./events.js";
import { PromiseClass, TypeErrorClass, define, defineOwn, promiseThen, watch } from "./primordials.js";
import { clearInterval, clearTimeout, setInterval, setTimeout } from "./timers.js";
import { consoleObject } from "./console.js";
import { DOMException } from "./errors.js";
import { installBounds } from "./bounds.js";
import { installBuffers } from "./buffers.js";
import { installTime, performanceObject } from "./time.js";
import { structuredClone } from "./clone.js";

const REMOVED = [
  "Atomics",
  "FinalizationRegistry",
  "SharedArrayBuffer",
  "Temporal",
  "WeakRef",
  "WebAssembly",
  "console",
  "escape",
  "unescape",
];

/** What the last regular expression matched, whoever ran it. */
const LEGACY = [
  "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$_", "$&", "$+", "$`", "$'",
  "input", "lastMatch", "lastParen", "leftContext", "rightContext",
];

const settled = new PromiseClass((resolve) => resolve());
watch(settled, undefined, undefined);

function queueMicrotask(callback) {
  if (typeof callback !== "function") throw new TypeErrorClass("queueMicrotask needs a function to call");
  // An exception rejects the promise of this reaction, which has no handler: the run fails, as it should.
  promiseThen(settled, () => {
    callback();
  });
}

/** Define globals on first use: `load()` gives all of `names` at once. */
const defineLazily = (global, names, load) => {
  let loaded;
  let loading = false;
  const get = (name) => {
    if (loading) return undefined; // the library looks whether the platform has it already
    loading = true;
    try {
      if (loaded === undefined) {
        loaded = load();
        loaded.configure?.(DOMException);
      }
    } finally {
      loading = false;
    }
    for (let i = 0; i < names.length; i++) define(global, names[i], loaded[names[i]]);
    return loaded[name];
  };
  for (const name of names) {
    defineOwn(global, name, {
      __proto__: null,
      configurable: true,
      enumerable: false,
      get: () => get(name),
      set: (value) => define(global, name, value),
    });
  }
};

export const installGlobals = (global, libraries, memory) => {
  installTime(global);
  installBounds(global);
  installBuffers(global, memory);
  for (const name of REMOVED) delete global[name];
  for (const name of LEGACY) delete global.RegExp[name];
  delete global.Intl.v8BreakIterator;
  define(global.Math, "random", random);
  const added = {
    AbortController,
    AbortSignal,
    DOMException,
    Event,
    EventTarget,
    clearInterval,
    clearTimeout,
    console: consoleObject,
    crypto: cryptoObject,
    performance: performanceObject,
    queueMicrotask,
    setInterval,
    setTimeout,
    structuredClone,
  };
  for (const name of Object.keys(added)) define(global, name, added[name]);
  defineLazily(global, ["URL", "URLSearchParams"], libraries.url);
  defineLazily(global, ["TextEncoder", "TextDecoder", "atob", "btoa"], libraries.encoding);
  defineLazily(cryptoObject, ["subtle"], libraries.digest);
};
