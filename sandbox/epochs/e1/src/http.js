// `http` of "rewind:tools": every helper is a call of the tool http.request, with arguments in one form.
import {
  StringOf,
  TypeErrorClass,
  create,
  defineFixed,
  defineOwn,
  freeze,
  hasOwn,
  isArray,
  ownEnumerableKeys,
  rejectedWith,
  toUpperCase,
} from "./primordials.js";
import { callsite } from "./stack.js";

const METHODS = { __proto__: null, get: "GET", post: "POST", put: "PUT", patch: "PATCH", delete: "DELETE" };
const BODIES = ["json", "text", "base64"];

const put = (target, key, value) =>
  defineOwn(target, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

/** Names to text, or to a list of texts. Numbers and booleans are written out; what is undefined or null is left out. */
const textsOf = (what, given) => {
  if (typeof given !== "object" || given === null || isArray(given)) {
    throw new TypeErrorClass(`http.request: ${what} must be an object of names and texts`);
  }
  const texts = create(null);
  const names = ownEnumerableKeys(given);
  for (let i = 0; i < names.length; i++) {
    const value = given[names[i]];
    if (value === undefined || value === null) continue;
    if (isArray(value)) {
      const list = [];
      for (let j = 0; j < value.length; j++) put(list, j, StringOf(value[j]));
      texts[names[i]] = list;
    } else texts[names[i]] = StringOf(value);
  }
  return texts;
};

/** Exactly what the dispatcher knows: method, url, headers, query, and one body at most. */
const normalised = (request) => {
  if (typeof request !== "object" || request === null) throw new TypeErrorClass("http.request needs {url, …}");
  const { method, url, headers, query } = request;
  if (url === undefined || url === null || url === "") throw new TypeErrorClass("http.request needs a url");
  const args = create(null);
  args.method = method === undefined ? "GET" : toUpperCase(StringOf(method));
  args.url = StringOf(url);
  if (headers !== undefined) args.headers = textsOf("headers", headers);
  if (query !== undefined) args.query = textsOf("query", query);
  let body;
  for (let i = 0; i < BODIES.length; i++) {
    const kind = BODIES[i];
    const content = request[kind];
    if (content === undefined) continue;
    if (body !== undefined) throw new TypeErrorClass(`http.request takes one body: ${body} or ${kind}, not both`);
    if (kind !== "json" && typeof content !== "string") throw new TypeErrorClass(`http.request: ${kind} must be text`);
    body = kind;
    args[kind] = content;
  }
  return args;
};

/** The options of the call: those of the request itself count unless others are given. */
const optionsOf = (request, options) => ({
  __proto__: null,
  timeout: options?.timeout ?? request.timeout,
  signal: options?.signal ?? request.signal,
});

export const makeHttp = (callTool) => {
  const send = (site, make, options) => {
    let args;
    let asked;
    try {
      const request = make();
      args = normalised(request);
      asked = optionsOf(request, options);
    } catch (error) {
      return rejectedWith(error);
    }
    return callTool(site, args, asked);
  };
  const http = {
    request: (request, options) => send(callsite(http.request), () => request, options),
  };
  const names = ownEnumerableKeys(METHODS);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    const made = {
      [name](url, init) {
        return send(callsite(own), () => withUrl(METHODS[name], url, init), undefined);
      },
    };
    const own = made[name];
    defineFixed(http, name, freeze(own));
  }
  freeze(http.request);
  return freeze(http);
};

const withUrl = (method, url, init) => {
  if (typeof url === "object" && url !== null && hasOwn(url, "url")) {
    throw new TypeErrorClass("the first argument is the url, the second {headers, query, json, …}: or use http.request");
  }
  const { headers, query, json, text, base64, timeout, signal } = init ?? {};
  return { __proto__: null, method, url, headers, query, json, text, base64, timeout, signal };
};
