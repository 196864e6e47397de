// The errors of module `rewind`.
import { defineOwn, define, hasOwn } from "./primordials.js";
import { ErrorClass, placeError } from "./stack.js";

const named = (Class, name) => {
  define(Class.prototype, "name", name);
  return Class;
};

const field = (error, key, value) =>
  defineOwn(error, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });

export class ToolError extends ErrorClass {
  constructor(message, { tool, code, data, retryable } = {}) {
    super(message);
    field(this, "tool", tool);
    field(this, "code", code ?? "tool_failed");
    field(this, "data", data);
    field(this, "retryable", retryable ?? false);
  }
}

export class ApprovalDeniedError extends ErrorClass {
  constructor(message, { tool, reason, by, expired } = {}) {
    super(message);
    field(this, "tool", tool);
    field(this, "reason", reason);
    field(this, "by", by);
    field(this, "expired", expired ?? false);
  }
}

export class OutcomeUnknownError extends ErrorClass {
  constructor(message, { tool } = {}) {
    super(message);
    field(this, "tool", tool);
  }
}

export class CancelledError extends ErrorClass {}
export class DeadlockError extends ErrorClass {}
export class TimeoutError extends ErrorClass {}
export class LimitError extends ErrorClass {}

/** The codes that some names had before there were names. */
const CODES = {
  __proto__: null,
  InvalidCharacterError: 5,
  NotSupportedError: 9,
  SyntaxError: 12,
  AbortError: 20,
  QuotaExceededError: 22,
  TimeoutError: 23,
  DataCloneError: 25,
};

/** What the web's own functions throw. */
export class DOMException extends ErrorClass {
  #name;

  constructor(message = "", options = undefined) {
    const named = typeof options === "object" && options !== null;
    if (named && "cause" in options) super(message, { cause: options.cause });
    else super(message);
    const name = named ? options.name : options;
    this.#name = name === undefined ? "Error" : `${name}`;
  }

  get name() {
    return this.#name;
  }
  get code() {
    return CODES[this.#name] ?? 0;
  }
}

named(ToolError, "ToolError");
named(ApprovalDeniedError, "ApprovalDeniedError");
named(OutcomeUnknownError, "OutcomeUnknownError");
named(CancelledError, "CancelledError");
named(DeadlockError, "DeadlockError");
named(TimeoutError, "TimeoutError");
named(LimitError, "LimitError");
define(DOMException.prototype, Symbol.toStringTag, "DOMException");

const own = (object, key) => (object !== null && typeof object === "object" && hasOwn(object, key) ? object[key] : undefined);

/** The error of a completed call, as the script gets it: with the stack of the line that made the call. */
export const errorOfCall = (tool, recorded, site) => {
  const message = own(recorded, "message") ?? "";
  const code = own(recorded, "code") ?? undefined;
  const data = own(own(recorded, "data"), "value");
  let error;
  switch (own(recorded, "name")) {
    case "ApprovalDeniedError":
      error = new ApprovalDeniedError(message, {
        tool,
        reason: own(data, "reason") ?? null,
        by: own(data, "by") ?? null,
        expired: own(data, "expired") === true,
      });
      break;
    case "OutcomeUnknownError":
      error = new OutcomeUnknownError(message, { tool });
      break;
    case "CancelledError":
      error = new CancelledError(message);
      break;
    case "LimitError":
      error = new LimitError(message);
      break;
    default:
      error = new ToolError(message, { tool, code, data, retryable: own(recorded, "retryable") === true });
  }
  return placeError(error, site);
};

export const cancelled = (message, site, options) => placeError(new CancelledError(message, options), site);
