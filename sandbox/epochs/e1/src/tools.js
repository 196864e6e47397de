// The functions behind "rewind:tools" and "rewind:workflows": each call is one entry of the journal.
import {
  PromiseClass,
  TypeErrorClass,
  ceil,
  create,
  defineFixed,
  defineOwn,
  freeze,
  hasOwn,
  indexOfString,
  newList,
  rejectedWith,
  sliceString,
} from "./primordials.js";
import { abortCall, addCall, addCleanUpCall, never, run } from "./journal.js";
import { ARGUMENTS, encode, refuseSize, utf8Bytes } from "./encode.js";
import { callsite } from "./stack.js";
import { cancelled } from "./errors.js";
import { makeHttp } from "./http.js";
import { checkSignal, followSignal, isAborted, reasonOf } from "./abort.js";
import { milliseconds } from "./duration.js";

const encodeArguments = (tool, args) => {
  if (args === undefined) return "{}";
  const text = encode(ARGUMENTS, tool, "args", args);
  if (text === undefined) throw new TypeErrorClass(`${tool}: args must be an object`);
  if (text.length > run.valueBytesMax / 3) {
    const bytes = utf8Bytes(text);
    if (bytes > run.valueBytesMax) refuseSize(tool, "args", bytes, run.valueBytesMax);
  }
  return text;
};

const readOptions = (options) => {
  const { timeout, signal } = options ?? {};
  if (signal !== undefined) checkSignal(signal);
  return { __proto__: null, timeout: timeout === undefined ? undefined : ceil(milliseconds(timeout)), signal };
};

const begin = (tool, text, options, site, resolve, reject) => {
  const call = addCall(tool, text, options.timeout, site);
  call.resolve = resolve;
  call.reject = reject;
  if (options.signal === undefined) return;
  call.follower = followSignal(options.signal, (reason, aborted) => {
    if (!run.accepting || !abortCall(call, aborted)) return;
    reject(cancelled(`the call of ${tool} was aborted`, site, { cause: reason }));
  });
};

/** Make a call: in the journal at once, its outcome later. */
const callTool = (tool, gated, site, args, options) => {
  let text;
  let asked;
  try {
    text = encodeArguments(tool, args);
    asked = readOptions(options);
    if (asked.signal !== undefined && isAborted(asked.signal)) {
      return rejectedWith(cancelled(`the call of ${tool} was aborted`, site, { cause: reasonOf(asked.signal) }));
    }
  } catch (error) {
    return rejectedWith(error);
  }
  if (!run.accepting) return never();
  if (run.cleaningUp) {
    if (gated) return rejectedWith(cancelled(`the run was cancelled: ${tool} needs an approval, which a clean-up cannot wait for`, site));
    addCleanUpCall(tool, text, asked.timeout, site);
    return never();
  }
  return new PromiseClass((resolve, reject) => begin(tool, text, asked, site, resolve, reject));
};

const toolFunction = (tool, gated, name) => {
  const made = {
    [name](args, options) {
      return callTool(tool, gated, callsite(own), args, options);
    },
  };
  const own = made[name];
  return own;
};

const WORKFLOWS = "workflows.";
const HTTP = "http.request";

/** "github.list_issues" -> {group: "github", own: "list_issues"}; a name without a dot has no group. */
const splitName = (name) => {
  const dot = indexOfString(name, ".");
  if (dot < 0) return { __proto__: null, group: "", own: name };
  return { __proto__: null, group: sliceString(name, 0, dot), own: sliceString(name, dot + 1) };
};

/** Modules as frozen objects from the tools; a group's functions are made when it is first asked for. */
export const makeModules = (tools) => {
  const groups = create(null);
  const names = newList();
  const workflows = create(null);
  const workflowNames = newList();
  const modules = { __proto__: null, tools: create(null), workflows: create(null) };
  for (let i = 0; i < tools.length; i++) {
    const { name, gated } = tools[i];
    if (name === HTTP) {
      defineFixed(modules.tools, "http", makeHttp((site, args, options) => callTool(HTTP, gated, site, args, options)));
      continue;
    }
    if (indexOfString(name, WORKFLOWS) === 0) {
      addWorkflow(workflows, workflowNames, splitName(sliceString(name, WORKFLOWS.length)), name, gated);
      continue;
    }
    const { group, own } = splitName(name);
    if (group === "") {
      defineFixed(modules.tools, own, freeze(toolFunction(name, gated, own)));
      continue;
    }
    if (!hasOwn(groups, group)) {
      groups[group] = newList();
      names[names.length++] = group;
    }
    const members = groups[group];
    members[members.length++] = { __proto__: null, name, gated, own };
  }
  for (let i = 0; i < names.length; i++) defineGroup(modules.tools, names[i], groups[names[i]]);
  for (let i = 0; i < workflowNames.length; i++) {
    defineWorkflow(modules.workflows, workflowNames[i], workflows[workflowNames[i]]);
  }
  freeze(modules.tools);
  freeze(modules.workflows);
  return modules;
};

const defineGroup = (module, group, members) => {
  let made;
  const get = () => {
    if (made !== undefined) return made;
    made = {};
    for (let i = 0; i < members.length; i++) {
      const { name, gated, own } = members[i];
      defineFixed(made, own, freeze(toolFunction(name, gated, own)));
    }
    return freeze(made);
  };
  defineOwn(module, group, { __proto__: null, get, enumerable: true, configurable: false });
};

/** `workflows.onboard` is called, `workflows.onboard.start` is its `start`. */
const addWorkflow = (workflows, names, { group, own }, tool, gated) => {
  const name = group === "" ? own : group;
  if (!hasOwn(workflows, name)) {
    workflows[name] = { __proto__: null, call: undefined, start: undefined };
    names[names.length++] = name;
  }
  workflows[name][group === "" ? "call" : "start"] = toolFunction(tool, gated, own);
};

const defineWorkflow = (module, name, { call, start }) => {
  if (call === undefined) return;
  if (start !== undefined) defineFixed(call, "start", freeze(start));
  defineFixed(module, name, freeze(call));
};
