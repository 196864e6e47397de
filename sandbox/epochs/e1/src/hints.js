// What to write instead: a line added to the message of an error that ends a run, for the model that reads it.
// Only the run's own end is told; a script that catches the error sees the engine's message.
import { hasOwn, indexOfString, min, newList, regexpExec, sliceString, toLowerCase } from "./primordials.js";

const NETWORK = "There is no network in a script: call a tool";
const FILES = "There is no file system in a script: call a tool that reads or writes files";
const PAGE = "A script runs in no browser: there is no page, storage or navigation";
const MODULES = 'A script has no module system: it imports from "rewind", "rewind:tools" and "rewind:workflows" only';
const PROCESS = "A script has no process and no environment: pass what it needs as input";
const CODE = "Code from strings is not run: write the code itself, or JSON.parse for data";
const DIFFERS = "is left out because it could differ when the run is replayed";

const ABSENT = {
  __proto__: null,
  Buffer: "There is no Buffer: use Uint8Array, Uint8Array.fromBase64, TextEncoder and TextDecoder",
  setImmediate: "Use setTimeout(f, 0) or queueMicrotask(f)",
  WebAssembly: `WebAssembly ${DIFFERS}`,
  SharedArrayBuffer: `SharedArrayBuffer ${DIFFERS}: use ArrayBuffer`,
  Atomics: `Atomics ${DIFFERS}`,
  WeakRef: `WeakRef ${DIFFERS}: keep the object, or use a WeakMap`,
  FinalizationRegistry: `FinalizationRegistry ${DIFFERS}`,
  Temporal: "There is no Temporal: use Date, which shows the run's logical time",
  escape: "Use encodeURIComponent",
  unescape: "Use decodeURIComponent",
};
const GROUPS = [
  [NETWORK, ["fetch", "XMLHttpRequest", "WebSocket", "EventSource", "axios", "Headers", "Request", "Response", "http", "https", "net", "got"]],
  [FILES, ["fs", "path", "readFile", "writeFile", "readFileSync", "writeFileSync", "Blob", "File", "FileReader"]],
  [PAGE, ["window", "document", "localStorage", "sessionStorage", "navigator", "alert", "location", "self", "indexedDB"]],
  [MODULES, ["require", "module", "exports", "__dirname", "__filename", "importScripts"]],
  [PROCESS, ["process", "global", "Deno", "Bun", "os", "child_process", "exec", "spawn"]],
];

const NOT_DEFINED = /^([A-Za-z_$][\w$]*) is not defined$/;
const NOT_A_FUNCTION = /([A-Za-z_$][\w$]*)\.([A-Za-z_$][\w$]*) is not a function$/;
const NO_EVAL = /^Code generation from strings disallowed/;

let tools = newList();
let imported = newList();
let rewindNames = { __proto__: null };

/** What the run has: its tools, what the script imports, and the exports of "rewind". */
export const setHintSources = (toolNames, params, rewind) => {
  tools = toolNames;
  imported = params;
  rewindNames = rewind;
};

/** Edits between two short names (Levenshtein). */
const distance = (a, b) => {
  let above = newList();
  for (let j = 0; j <= b.length; j++) above[j] = j;
  for (let i = 1; i <= a.length; i++) {
    const row = newList();
    row[0] = i;
    for (let j = 1; j <= b.length; j++) row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    above = row;
  }
  return above[b.length];
};

const NAME_MAX = 64;
const LISTED_MAX = 20;

/** At most `count` of the names that are like the wanted one, the nearest first. */
export const nearest = (wanted, names, count) => {
  const found = newList();
  const sought = toLowerCase(sliceString(wanted, 0, NAME_MAX));
  for (let i = 0; i < names.length; i++) {
    const name = toLowerCase(names[i]);
    const edits = indexOfString(name, sought) >= 0 || indexOfString(sought, name) >= 0 ? 1 : distance(sought, sliceString(name, 0, NAME_MAX));
    if (edits > 2 && edits * 3 > sought.length) continue;
    let at = found.length++;
    while (at > 0 && found[at - 1].edits > edits) {
      found[at] = found[at - 1];
      at--;
    }
    found[at] = { __proto__: null, name: names[i], edits };
  }
  const best = newList();
  for (let i = 0; i < found.length && i < count; i++) best[best.length++] = found[i].name;
  return best;
};

export const listOf = (names) => {
  let text = "";
  for (let i = 0; i < names.length && i < LISTED_MAX; i++) text += i === 0 ? names[i] : `, ${names[i]}`;
  return names.length > LISTED_MAX ? `${text} and ${names.length - LISTED_MAX} more` : text;
};

const hasHttp = () => {
  for (let i = 0; i < tools.length; i++) if (tools[i].name === "http.request") return true;
  return false;
};

const undefinedHint = (name) => {
  if (hasOwn(rewindNames, name)) return `Import it: import { ${name} } from "rewind";`;
  for (let i = 0; i < tools.length; i++) {
    const tool = tools[i].name;
    if (tool === name || indexOfString(tool, `${name}.`) === 0) return `Import it: import { ${name} } from "rewind:tools";`;
    if (tool === `workflows.${name}`) return `Import it: import { ${name} } from "rewind:workflows";`;
  }
  if (ABSENT[name] !== undefined) return ABSENT[name];
  for (let i = 0; i < GROUPS.length; i++) {
    const hint = GROUPS[i][0];
    const names = GROUPS[i][1];
    for (let j = 0; j < names.length; j++) {
      if (names[j] !== name) continue;
      return hint === NETWORK && hasHttp() ? `${hint}, or http.get(url) of "rewind:tools"` : hint;
    }
  }
  return undefined;
};

const HTTP_NAMES = "http.request, http.get, http.post, http.put, http.patch and http.delete";

/** The full name behind what a script calls `object`, under its own name or as it was imported. */
const groupOf = (object) => {
  for (let i = 0; i < imported.length; i++) {
    const { local, module, name } = imported[i];
    if (local === object && name !== "*") return module === "rewind:workflows" ? `workflows.${name}` : name;
  }
  return object;
};

/** `shop.prise is not a function`, where `shop` is a group of tools or a workflow. */
const memberHint = (object, member) => {
  const group = groupOf(object);
  const names = newList();
  for (let i = 0; i < tools.length; i++) {
    const { name } = tools[i];
    if (indexOfString(name, `${group}.`) === 0) names[names.length++] = sliceString(name, group.length + 1);
  }
  if (names.length === 0) return object === "crypto" ? "crypto has randomUUID, getRandomValues and subtle.digest" : undefined;
  if (group === "http") return `There is no http.${member}: there are ${HTTP_NAMES}`;
  const near = nearest(member, names, 3);
  const full = newList();
  for (let i = 0; i < near.length; i++) full[full.length++] = `${object}.${near[i]}`;
  if (full.length > 0) return `There is no ${group}.${member}: did you mean ${listOf(full)}?`;
  return `There is no ${group}.${member}: ${group} has ${listOf(names)}`;
};

/** The engine's own messages about names are short. */
const MESSAGE_MAX = 300;

/** One line, or undefined. */
export const hintFor = (name, message) => {
  if (message.length > MESSAGE_MAX) return undefined;
  if (name === "ReferenceError") {
    const found = regexpExec(NOT_DEFINED, message);
    return found === null ? undefined : undefinedHint(found[1]);
  }
  if (name === "EvalError") return regexpExec(NO_EVAL, message) === null ? undefined : CODE;
  if (name !== "TypeError") return undefined;
  const found = regexpExec(NOT_A_FUNCTION, message);
  return found === null ? undefined : memberHint(found[1], found[2]);
};
