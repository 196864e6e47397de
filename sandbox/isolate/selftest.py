"""Prove at boot that the engine is the one Rewind was made for; it uses functions that no header promises.

Every technique that a run relies on is tried once, in a few milliseconds. A failure names the property that
is missing, because an engine without it would record wrong histories.
"""

from sandbox.epochs.registry import EpochFiles
from sandbox.isolate.engine import Engine, EngineError, Handle, Isolate, ScriptThrewError, StoppedError

HEAP_BYTES = 64 * 1024 * 1024
LOOP_BUDGET_US = 20_000

_PRELUDE = """
(() => {
  "use strict";
  const mailbox = globalThis[4000000000], rejections = globalThis[4000000001];
  const { __pull: pull, __drain: drain, __weigh: weigh } = globalThis;
  const tests = {
    unhandled() { Promise.reject(new Error("seen")); drain(); return Reflect.ownKeys(rejections).length === 2 },
    late() { const p = Promise.reject(1); p.catch(() => {}); drain(); return Reflect.ownKeys(rejections).length === 2 },
    drained() { let ran = false; Promise.resolve().then(() => { ran = true }); drain(); return ran },
    code() { try { return new Function("return 1")() !== 1 } catch (e) { return e instanceof EvalError } },
    absent() { return typeof WebAssembly === "undefined" },
    counted() { for (let i = 0; i < 1000; i++) Promise.resolve().then(() => {}); drain(); return true },
    pulled() { return mailbox[0] === "pulled" },
    weighed() { for (let i = 0; i < 4; i++) new ArrayBuffer(2 ** 25); weigh(); return true },
    hoard() { const kept = []; for (;;) try { kept.push(new ArrayBuffer(2 ** 24)) } catch { kept.length = 0 } },
    loop() { const spin = () => Promise.resolve().then(spin); spin(); drain(); return true },
  };
  return function entry() { pull(); const name = mailbox[0]; return String((tests[name] ?? tests.pulled)()) };
})()
"""

_PROPERTIES = {
    "pulled": "text reaches the sandbox",
    "counted": "microtasks can be counted",
    "drained": "microtasks can be drained inside a call",
    "unhandled": "a promise rejected without a handler is seen",
    "late": "a handler attached later is seen",
    "code": "code from strings is refused",
    "absent": "WebAssembly is absent",
    "weighed": "buffers that nobody has any more are not counted",
}


def self_test(engine: Engine, files: EpochFiles | None = None) -> None:
    """Errors: EngineError naming the property that fails."""
    if files is not None and engine.v8.version != files.v8:
        raise EngineError(f"the engine is V8 {engine.v8.version}, epoch {files.epoch} needs {files.v8}")
    if not engine.v8.has_v8_sandbox:
        raise EngineError("the engine was built without V8's memory sandbox")
    for attempt in (_try_properties, _try_buffers):
        isolate = Isolate(engine, heap_bytes=HEAP_BYTES)
        try:
            attempt(isolate)
        except (StoppedError, ScriptThrewError) as error:
            raise EngineError(f"the engine's self-test stopped: {error!r}") from error
        finally:
            isolate.close()


def _entry(isolate: Isolate) -> Handle:
    entry = isolate.evaluate(_PRELUDE)
    if not isinstance(entry, Handle) or not entry.is_function:
        raise EngineError("the engine cannot hold a function")
    return entry


def _try_buffers(isolate: Isolate) -> None:
    """What keeps too many is stopped without having asked, and cannot catch it."""
    try:
        isolate.call(_entry(isolate), text=b"hoard", budget_us=1_000_000)
    except StoppedError as stop:
        if stop.limit == "heap" and stop.used > HEAP_BYTES:
            return
    raise EngineError("the engine does not keep what Rewind relies on: buffers beyond the limit end the run")


def _try_properties(isolate: Isolate) -> None:
    entry = _entry(isolate)
    for name, promise in _PROPERTIES.items():
        before = isolate.microtasks
        held = isolate.call(entry, text=name.encode(), budget_us=1_000_000) == "true"
        if not held or (name == "counted" and isolate.microtasks != before + 1_000):
            raise EngineError(f"the engine does not keep what Rewind relies on: {promise}")
    began = isolate.cpu_ns()
    try:
        isolate.call(entry, text=b"loop", budget_us=LOOP_BUDGET_US)
    except StoppedError as stop:
        if stop.limit != "cpu" or isolate.cpu_ns() <= began:
            raise EngineError("the engine does not measure CPU per isolate") from stop
    else:
        raise EngineError("the engine does not keep what Rewind relies on: a microtask loop is stopped")
