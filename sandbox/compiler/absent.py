"""What scripts reach for that a sandbox does not have, and what to write instead."""

_INPUT = "pass it in the run's `input`; credentials belong to the tools, never to a script"
_NETWORK = "a script has no network of its own: call a tool that makes the request"
_BYTES = "use `TextEncoder`, `TextDecoder`, `btoa` and `atob` with a `Uint8Array`"
_MODULES = (
    'a script imports only from "rewind", "rewind:tools" and "rewind:workflows", by `import { … } from "…"`'
)
_FILES = "a script has no files: call a tool that reads or writes them"
_SHARED = "a script has one thread: use plain arrays and objects"
_WEAK = "nothing a script does may depend on garbage collection: keep a plain reference"

ABSENT: dict[str, str] = {
    "fetch": _NETWORK,
    "XMLHttpRequest": _NETWORK,
    "WebSocket": _NETWORK,
    "EventSource": _NETWORK,
    "Request": _NETWORK,
    "Response": _NETWORK,
    "Headers": _NETWORK,
    "FormData": _NETWORK,
    "axios": _NETWORK,
    "process": _INPUT,
    "Deno": _INPUT,
    "Bun": _INPUT,
    "require": _MODULES,
    "module": _MODULES,
    "exports": _MODULES,
    "Buffer": _BYTES,
    "Blob": _BYTES,
    "File": _FILES,
    "__dirname": _FILES,
    "__filename": _FILES,
    "fs": _FILES,
    "path": "write paths as plain strings",
    "window": "there is no browser; globals are on `globalThis`",
    "document": "there is no browser: call a tool that reads the page",
    "navigator": "there is no browser",
    "localStorage": "a script keeps its variables for as long as the run lives, also over days of waiting",
    "sessionStorage": "a script keeps its variables for as long as the run lives, also over days of waiting",
    "alert": "use `console.log`, or a tool that reaches the user",
    "prompt": "call a tool that asks the user, or `waitForSignal`",
    "confirm": "call a tool that asks the user, or `waitForSignal`",
    "global": "write `globalThis`",
    "setImmediate": "write `setTimeout(callback, 0)`",
    "requestAnimationFrame": "write `setTimeout(callback, 0)`",
    "SharedArrayBuffer": _SHARED,
    "Atomics": _SHARED,
    "Worker": _SHARED,
    "WebAssembly": "only the script's own text runs",
    "WeakRef": _WEAK,
    "FinalizationRegistry": _WEAK,
    "eval": "code from strings does not run: write the function",
    "Temporal": "use `Date`",
    "CustomEvent": "extend `Event`: `class Changed extends Event { detail = 1; }`",
    "escape": "use `encodeURIComponent`",
    "unescape": "use `decodeURIComponent`",
    "delay": 'write `await sleep("1s")`, with `import { sleep } from "rewind"`',
    "wait": 'write `await sleep("1s")`, with `import { sleep } from "rewind"`',
}
MODULE_VALUES = (
    "sleep",
    "waitForSignal",
    "retry",
    "run",
    "progress",
    "ToolError",
    "ApprovalDeniedError",
    "OutcomeUnknownError",
    "CancelledError",
    "DeadlockError",
    "TimeoutError",
    "LimitError",
)
MODULE_NAMES = (*MODULE_VALUES, "Duration", "CallOptions")
