// The web's globals, as far as the sandbox has them.

interface Console {
  assert(condition?: unknown, ...values: unknown[]): void;
  count(label?: string): void;
  countReset(label?: string): void;
  debug(...values: unknown[]): void;
  dir(value?: unknown, options?: unknown): void;
  dirxml(...values: unknown[]): void;
  error(...values: unknown[]): void;
  group(...values: unknown[]): void;
  groupCollapsed(...values: unknown[]): void;
  groupEnd(): void;
  info(...values: unknown[]): void;
  log(...values: unknown[]): void;
  table(data?: unknown, columns?: readonly string[]): void;
  time(label?: string): void;
  timeEnd(label?: string): void;
  timeLog(label?: string, ...values: unknown[]): void;
  trace(...values: unknown[]): void;
  warn(...values: unknown[]): void;
}
/** Each line is an entry of the run's journal. */
declare var console: Console;

/** Durable: fires however long it takes, whatever restarts meanwhile. */
declare function setTimeout(callback: (...values: any[]) => unknown, delay?: number, ...values: any[]): number;
declare function clearTimeout(handle: number | undefined | null): void;
declare function setInterval(callback: (...values: any[]) => unknown, delay?: number, ...values: any[]): number;
declare function clearInterval(handle: number | undefined | null): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;
/** Base64 to a string of bytes. */
declare function atob(data: string): string;
/** A string of bytes (characters up to U+00FF) to Base64. */
declare function btoa(data: string): string;

type BufferSource = ArrayBufferView | ArrayBuffer;

interface Crypto {
  readonly subtle: SubtleCrypto;
  getRandomValues<T extends Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array>(array: T): T;
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`;
}
interface SubtleCrypto {
  digest(algorithm: "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512" | { name: string }, data: BufferSource): Promise<ArrayBuffer>;
}
/** Random numbers come from the run's seed: the same whenever the run is replayed. */
declare var crypto: Crypto;

interface Performance {
  readonly timeOrigin: number;
  /** Milliseconds of logical time since the run began: stands still between two events. */
  now(): number;
  toJSON(): { timeOrigin: number };
}
declare var performance: Performance;

interface DOMException extends Error {
  readonly [Symbol.toStringTag]: string;
  readonly code: number;
}
declare var DOMException: {
  prototype: DOMException;
  new (message?: string, nameOrOptions?: string | { name?: string; cause?: unknown }): DOMException;
};

interface EventInit {
  bubbles?: boolean;
  cancelable?: boolean;
  composed?: boolean;
}
interface Event {
  readonly [Symbol.toStringTag]: string;
  readonly type: string;
  readonly target: EventTarget | null;
  readonly currentTarget: EventTarget | null;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  readonly defaultPrevented: boolean;
  readonly eventPhase: number;
  readonly isTrusted: boolean;
  readonly timeStamp: number;
  composedPath(): EventTarget[];
  preventDefault(): void;
  stopImmediatePropagation(): void;
  stopPropagation(): void;
}
declare var Event: {
  prototype: Event;
  new (type: string, init?: EventInit): Event;
};

interface EventListener {
  (event: Event): void;
}
interface EventListenerObject {
  handleEvent(event: Event): void;
}
type EventListenerOrEventListenerObject = EventListener | EventListenerObject;
interface AddEventListenerOptions {
  capture?: boolean;
  once?: boolean;
  passive?: boolean;
  signal?: AbortSignal;
}
interface EventTarget {
  readonly [Symbol.toStringTag]: string;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject | null, options?: AddEventListenerOptions | boolean): void;
  dispatchEvent(event: Event): boolean;
  removeEventListener(type: string, listener: EventListenerOrEventListenerObject | null, options?: { capture?: boolean } | boolean): void;
}
declare var EventTarget: {
  prototype: EventTarget;
  new (): EventTarget;
};

interface AbortSignal extends EventTarget {
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((this: AbortSignal, event: Event) => any) | null;
  throwIfAborted(): void;
}
declare var AbortSignal: {
  prototype: AbortSignal;
  abort(reason?: any): AbortSignal;
  any(signals: Iterable<AbortSignal>): AbortSignal;
  /** A durable timer: milliseconds, or text such as "30s". */
  timeout(duration: number | string): AbortSignal;
};
interface AbortController {
  readonly [Symbol.toStringTag]: string;
  readonly signal: AbortSignal;
  abort(reason?: any): void;
}
declare var AbortController: {
  prototype: AbortController;
  new (): AbortController;
};

interface TextEncoder {
  readonly [Symbol.toStringTag]: string;
  readonly encoding: string;
  encode(input?: string): Uint8Array<ArrayBuffer>;
  encodeInto(source: string, destination: Uint8Array): { read: number; written: number };
}
declare var TextEncoder: {
  prototype: TextEncoder;
  new (): TextEncoder;
};
interface TextDecoder {
  readonly [Symbol.toStringTag]: string;
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(input?: BufferSource, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  prototype: TextDecoder;
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

interface URL {
  readonly [Symbol.toStringTag]: string;
  hash: string;
  host: string;
  hostname: string;
  href: string;
  readonly origin: string;
  password: string;
  pathname: string;
  port: string;
  protocol: string;
  search: string;
  readonly searchParams: URLSearchParams;
  username: string;
  toJSON(): string;
  toString(): string;
}
declare var URL: {
  prototype: URL;
  new (url: string | URL, base?: string | URL): URL;
  canParse(url: string | URL, base?: string | URL): boolean;
  parse(url: string | URL, base?: string | URL): URL | null;
};
interface URLSearchParams {
  readonly [Symbol.toStringTag]: string;
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  entries(): IteratorObject<[string, string], undefined, unknown>;
  forEach(callback: (value: string, key: string, parent: URLSearchParams) => void, thisArg?: any): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  keys(): IteratorObject<string, undefined, unknown>;
  set(name: string, value: string): void;
  sort(): void;
  toString(): string;
  values(): IteratorObject<string, undefined, unknown>;
  [Symbol.iterator](): IteratorObject<[string, string], undefined, unknown>;
}
declare var URLSearchParams: {
  prototype: URLSearchParams;
  new (init?: Iterable<readonly [string, string]> | Record<string, string> | string | URLSearchParams): URLSearchParams;
};

// What V8 has and TypeScript's own files leave out.

interface ErrorConstructor {
  captureStackTrace(target: object, below?: Function): void;
  stackTraceLimit: number;
}
interface JSON {
  isRawJSON(value: unknown): boolean;
  rawJSON(text: string): { readonly rawJSON: string };
}
declare namespace Intl {
  interface Collator {
    readonly [Symbol.toStringTag]: string;
  }
  interface DateTimeFormat {
    readonly [Symbol.toStringTag]: string;
  }
  interface DisplayNames {
    readonly [Symbol.toStringTag]: string;
  }
  interface DurationFormat {
    readonly [Symbol.toStringTag]: string;
  }
  interface ListFormat {
    readonly [Symbol.toStringTag]: string;
  }
  interface Locale {
    readonly firstDayOfWeek: string | undefined;
    readonly [Symbol.toStringTag]: string;
  }
  interface NumberFormat {
    readonly [Symbol.toStringTag]: string;
  }
  interface PluralRules {
    selectRange(start: number | bigint, end: number | bigint): LDMLPluralRule;
    readonly [Symbol.toStringTag]: string;
  }
  interface RelativeTimeFormat {
    readonly [Symbol.toStringTag]: string;
  }
  interface Segmenter {
    readonly [Symbol.toStringTag]: string;
  }
}
