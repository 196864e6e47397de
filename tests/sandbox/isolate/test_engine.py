"""The engine driver by itself: what the boot self-test relies on, and what it says when something is missing."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def in_process(code: str) -> str:
    """V8 takes its flags once per process, so each of these has its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.strip()


HEAD = """
from sandbox.epochs.registry import epoch_files
from sandbox.isolate import engine as engines
from sandbox.isolate.engine import *
from sandbox.isolate.selftest import self_test
from sandbox.isolate.warmup import load_prelude, warm_libraries
files = epoch_files(1)
"""


def test_the_self_test_passes_with_the_epochs_flags() -> None:
    assert in_process(HEAD + "self_test(Engine(files.flags), files); print('ok')") == "ok"


def test_the_self_test_notices_flags_that_allow_code_from_strings() -> None:
    out = in_process(
        HEAD
        + """
try: self_test(Engine(("--single-threaded", "--jitless")), files)
except EngineError as error: print(error)
"""
    )
    assert "code from strings is refused" in out


def test_the_self_test_notices_that_rejections_are_not_seen() -> None:
    out = in_process(
        HEAD
        + """
Isolate._promise_event = lambda self, message: None
try: self_test(Engine(files.flags), files)
except EngineError as error: print(error)
"""
    )
    assert "a promise rejected without a handler is seen" in out


def test_the_self_test_notices_another_v8() -> None:
    out = in_process(
        HEAD
        + """
import dataclasses
try: self_test(Engine(files.flags), dataclasses.replace(files, v8="99.0"))
except EngineError as error: print(error)
"""
    )
    assert out.startswith("the engine is V8 14.") and out.endswith("epoch 1 needs 99.0")


def test_a_library_without_the_symbols_is_refused_by_name() -> None:
    out = in_process(
        HEAD
        + """
from sandbox.isolate import symbols
symbols._ISOLATE = "_ZN2v87Missing"
try: Engine(files.flags)
except EngineError as error: print(error)
"""
    )
    assert out.startswith("the JavaScript engine library has no function _ZN2v87Missing")
    assert "install the pinned mini-racer wheel" in out


def test_isolates_come_and_go_without_growth() -> None:
    out = in_process(
        HEAD
        + """
import pathlib, mmap
engine = Engine(files.flags)
rss = lambda: int(pathlib.Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE / 2**20
libraries = warm_libraries(engine, files)
def one():
    isolate = Isolate(engine, heap_bytes=2**27, libraries=libraries)
    load_prelude(isolate)
    isolate.close()
for _ in range(60): one()
before = rss()
for _ in range(240): one()
print(rss() - before)
"""
    )
    assert float(out) < 12


def test_a_rejection_shows_through_many_identity_hashes() -> None:
    out = in_process(
        HEAD
        + """
isolate = Isolate(Engine(files.flags), heap_bytes=2**27)
entry = isolate.evaluate('''(() => { const rejections = globalThis[4000000001], drain = globalThis.__drain;
  return function () {
    const kept = []; for (let i = 0; i < 3000; i++) kept.push(Promise.reject(i));
    for (let i = 0; i < 3000; i++) if (i % 7) kept[i].catch(() => {});
    drain(); const keys = Reflect.ownKeys(rejections).map(Number);
    return JSON.stringify([keys.length / 2, keys.every((k, n) => n % 2 || rejections[k + 1] % 7 === 0)]);
  } })()''')
print(isolate.call(entry, budget_us=5_000_000))
"""
    )
    assert out == "[429,true]"


def test_the_reject_message_has_the_size_that_v8_passes() -> None:
    from sandbox.isolate.symbols import RejectMessage

    assert ctypes.sizeof(RejectMessage) == 24


@pytest.mark.parametrize(("source", "message"), [("{", "SyntaxError"), ("null.x", "TypeError")])
def test_text_that_does_not_run_says_why(source: str, message: str) -> None:
    out = in_process(
        HEAD
        + f"""
isolate = Isolate(Engine(files.flags), heap_bytes=2**27)
try: isolate.evaluate({source!r})
except ScriptThrewError as error: print(error)
print(isolate.evaluate("'still usable'"))
"""
    )
    assert message in out
    assert out.endswith("still usable")
