// Module "rewind": what a script imports besides its tools.
declare module "rewind" {
  /** Milliseconds, or text: "250ms" "30s" "5m" "2h" "10d" "1w", sums such as "1h 30m", ISO 8601 such as "PT90S". */
  export type Duration = number | string;

  /** Second argument of every tool: give up after `timeout`, or when `signal` aborts (CancelledError). */
  export interface CallOptions {
    timeout?: Duration;
    signal?: AbortSignal;
  }

  /** Wait for days if need be: nothing runs meanwhile. */
  export function sleep(duration: Duration | Date): Promise<void>;

  /** Wait for a signal sent to this run. With `timeout` the answer is null when none came in time. */
  export function waitForSignal<T = any>(
    name: string,
    options?: { timeout?: undefined; signal?: AbortSignal; from?: "harness" },
  ): Promise<T>;
  export function waitForSignal<T = any>(
    name: string,
    options: { timeout?: Duration; signal?: AbortSignal; from?: "harness" },
  ): Promise<T | null>;

  /** Call `fn` until it succeeds: 3 attempts, after 1 s, 2 s, …, unless told otherwise. */
  export function retry<T>(
    fn: (attempt: number) => PromiseLike<T> | T,
    options?: {
      attempts?: number;
      backoff?: Duration | ((attempt: number) => Duration);
      on?: (error: unknown) => boolean;
    },
  ): Promise<T>;

  /** Show a value as this run's progress. */
  export function progress(value: unknown): void;

  export const run: {
    readonly id: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly deadline: Date;
    readonly parent: string | null;
    /** The run's own id; differs from `id` in a fork only. */
    readonly self: string;
  };

  /** A tool failed. */
  export class ToolError extends Error {
    constructor(message?: string, fields?: { tool?: string; code?: string; data?: unknown; retryable?: boolean });
    tool: string;
    /** One of the codes of Rewind, or the tool's own. */
    code:
      | "tool_failed"
      | "invalid_arguments"
      | "invalid_result"
      | "timeout"
      | "unreachable"
      | "unauthorized"
      | "rate_limited"
      | "too_large"
      | "tool_removed"
      | "no_answer"
      | (string & {});
    data: any;
    retryable: boolean;
  }

  /** Somebody denied the call, or nobody decided in time. */
  export class ApprovalDeniedError extends Error {
    constructor(message?: string, fields?: { tool?: string; reason?: string; by?: string; expired?: boolean });
    tool: string;
    reason: string | null;
    by: string | null;
    expired: boolean;
  }

  /** The call was begun, and nobody knows whether it took effect. */
  export class OutcomeUnknownError extends Error {
    constructor(message?: string, fields?: { tool?: string });
    tool: string;
  }

  /** The run, or this call, sleep or wait, was cancelled. */
  export class CancelledError extends Error {}
  export class DeadlockError extends Error {}
  export class TimeoutError extends Error {}
  export class LimitError extends Error {}
}
