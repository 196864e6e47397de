"""Run the prelude once in a new process, so that every isolate after it starts with compiled code."""

import orjson

from sandbox.epochs.registry import EpochFiles
from sandbox.isolate.code import Library
from sandbox.isolate.engine import Engine, EngineError, Handle, Isolate

RUNTIME = 3
"""Number of the prelude among an isolate's libraries; those before it are loaded on first use."""
HEAP_BYTES = 128 * 1024 * 1024
BUDGET_US = 30_000_000

_START = 1_790_000_000_000

_SCRIPT = """(async function (echo, sleep, waitForSignal, retry, run, progress) {
  async function main(input) {
    const controller = new AbortController();
    console.log("warm %s", input, { b: 1, a: [1, "é", null, new Date()] }, new Error("warm"));
    progress(run.id);
    const tick = setInterval(() => clearInterval(tick), 5);
    clearTimeout(setTimeout(() => {}, 5));
    await Promise.all([echo({ z: 1, a: [{ b: "x" }] }), echo({}, { signal: controller.signal, timeout: "5s" })]);
    try { await echo({ fails: true }); } catch (error) { String(error.stack); }
    await sleep("1h 30m");
    await waitForSignal("go", { timeout: "PT5M" });
    await retry(() => Math.random() + crypto.randomUUID().length);
    const url = new URL("https://münchen.example/a/../b?c=d#e");
    url.searchParams.append("f", "g h");
    const text = new TextDecoder().decode(new TextEncoder().encode(btoa(atob("d2FybQ=="))));
    await crypto.subtle.digest("SHA-256", new Uint8Array(8));
    return structuredClone({ href: url.href, text, list: [...new URLSearchParams("a=b")] });
  }
  return main;
})
//# sourceURL=script.ts"""

_IMPORTS = ("sleep", "waitForSignal", "retry", "run", "progress")


def _history() -> bytes:
    def event(type_: str, **fields: object) -> dict[str, object]:
        return {"type": type_, "time": _START, **fields}

    value = {"bytes": 2, "sha256": "", "value": {"ok": True}}
    failure = {
        "name": "ToolError",
        "code": "tool_failed",
        "message": "warm",
        "data": None,
        "retryable": False,
    }
    events = [
        event("run_started", input=value, seed="0" * 31 + "1", deadline=_START, labels={}, limits={}),
        event("timer_fired", timer=1),
        event("tool_call_completed", call=1, result=value, attempts=1),
        event("tool_call_completed", call=2, result=value, attempts=1),
        event("tool_call_completed", call=3, error=failure, attempts=1),
        event("timer_fired", timer=4),
        event("signal_received", name="go", payload=value, id="1", actor={"kind": "key", "id": "k"}),
    ]
    return orjson.dumps([{"seq": seq, **fields} for seq, fields in enumerate(events)])


def warm_libraries(engine: Engine, files: EpochFiles) -> list[Library]:
    """The epoch's scripts with their compiled code. Errors: EngineError when the prelude does not run."""
    libraries = [Library(source) for source in (*files.libraries, files.runtime.encode())]
    isolate = Isolate(engine, heap_bytes=HEAP_BYTES, libraries=libraries, record_code=True)
    try:
        _run(isolate)
        isolate.record_code()
    finally:
        isolate.close()
    return libraries


def load_prelude(isolate: Isolate) -> Handle:
    """The prelude's entry function. Errors: EngineError."""
    entry = isolate.load(RUNTIME)
    if not isinstance(entry, Handle) or not entry.is_function:
        raise EngineError("the prelude gave no entry function")
    return entry


def _run(isolate: Isolate) -> None:
    entry = load_prelude(isolate)
    script = isolate.evaluate(_SCRIPT)
    imports = [
        {"module": "rewind:tools", "name": "echo"},
        *({"module": "rewind", "name": n} for n in _IMPORTS),
    ]
    setup = {
        "run": "r",
        "namespace": "n",
        "tools": [{"name": "echo", "gated": False}],
        "params": imports,
        "result_at": {"line": 1, "column": 1},
    }
    assert isinstance(script, Handle)
    isolate.call(entry, text=orjson.dumps(setup), this=script, budget_us=BUDGET_US)
    answer = isolate.call(entry, text=_history(), budget_us=BUDGET_US)
    if not isinstance(answer, str) or orjson.loads(answer)["commands"][-1]["type"] != "complete_run":
        raise EngineError(f"the prelude does not run a simple script: {str(answer)[-500:]}")
