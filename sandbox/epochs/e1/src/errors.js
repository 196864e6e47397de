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
/** Not exported to scripts: the default reason of AbortController.abort(). */
export class AbortError extends ErrorClass {}
/** Not exported to scripts: what structuredClone refuses. */
export class DataCloneError extends ErrorClass {}

named(ToolError, "ToolError");
named(ApprovalDeniedError, "ApprovalDeniedError");
named(OutcomeUnknownError, "OutcomeUnknownError");
named(CancelledError, "CancelledError");
named(DeadlockError, "DeadlockError");
named(TimeoutError, "TimeoutError");
named(LimitError, "LimitError");
named(AbortError, "AbortError");
named(DataCloneError, "DataCloneError");

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
