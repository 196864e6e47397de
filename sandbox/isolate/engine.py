"""One V8 isolate on its own native thread, driven without asyncio: evaluate, call, stop, measure.

Invariants: an isolate serves one run only; after it was stopped for a limit it is closed and never entered
again. Nothing that a script can reach leads to the host: the two hidden objects (mailbox, rejections) and
the entry function are known to the prelude's closures and to this module alone.
"""

import ctypes
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.isolate import code
from sandbox.isolate.code import Library
from sandbox.isolate.memory import MemoryGuard
from sandbox.isolate.rejections import Rejections
from sandbox.isolate.symbols import (
    ENGINE_CALLBACK,
    REJECT_CALLBACK,
    V8,
    MissingSymbolError,
    RejectMessage,
)

COMPILER_FLAGS = ("--single-threaded", "--max-heap-size=768", "--disallow-code-generation-from-strings")

STORM_MICROTASKS = 200_000
"""More in one drain is an endless loop, or as good as one."""
_LOOK_INTERVAL_S = 0.1
_FINISHED_MICROTASKS_OFFSET = 40
"""In v8::internal::MicrotaskQueue; the self-test counts."""

_RESULT, _INIT, _DRAIN, _SWEEP, _PULL, _RECORD, _WEIGH, _EXHAUST, _LOAD_FIRST = 1, 2, 3, 4, 5, 6, 7, 8, 16
_HOOKS = {
    _INIT: "__init",
    _DRAIN: "__drain",
    _SWEEP: "__sweep",
    _PULL: "__pull",
    _WEIGH: "__weigh",
    _EXHAUST: "__exhaust",
}
_SLOTS = 4_000_000_000
"""Indexes on the global object where the prelude finds its mailbox and the rejections; it deletes both."""
_BIND = f"globalThis[{_SLOTS}]={{__proto__:null}};globalThis[{_SLOTS + 1}]={{__proto__:null}};__init()"
MAILBOX_TEXT, MAILBOX_LIBRARY = 0, 1

_STRING, _FUNCTION, _UNDEFINED = 5, 100, 11
_THREW, _PARSE, _OOM, _TIMEOUT, _TERMINATED = 200, 201, 202, 203, 204


class EngineError(Exception):
    """The engine did what a healthy one never does; the child process cannot be trusted any more."""


class ScriptThrewError(Exception):
    """Source text did not compile or threw while it was evaluated; the message has line and caret."""


@dataclass
class StoppedError(Exception):
    """The isolate was stopped at a limit; close it. allowed and used: µs of CPU, or bytes."""

    limit: str
    allowed: int
    used: int


class Handle:
    """A JavaScript value held by its isolate; freed with it."""

    __slots__ = ("raw", "type")

    def __init__(self, raw: Any, type_: int) -> None:
        self.raw = raw
        self.type = type_

    @property
    def is_function(self) -> bool:
        return self.type == _FUNCTION


class Engine:
    """V8 in this process: flags are fixed when it starts, so a process serves one epoch or the compiler."""

    def __init__(self, flags: tuple[str, ...]) -> None:
        try:
            self.v8 = V8(list(flags))
        except (ImportError, OSError) as error:
            raise EngineError(f"the JavaScript engine library cannot be loaded: {error}") from error
        except MissingSymbolError as error:
            raise EngineError(str(error)) from error
        self.on_fatal: Callable[[], None] | None = None
        """Called when V8 is about to abort the process for lack of memory."""


class Isolate:
    """Shapes: `libraries` are scripts that are loaded by index: the prelude, and what it needs at times.

    `on_event(n)` is called on the isolate's thread after the n-th event of a call was drained.
    Errors: StoppedError, ScriptThrewError, EngineError.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        heap_bytes: int,
        libraries: Sequence[Library] = (),
        record_code: bool = False,
        on_event: Callable[[int], None] | None = None,
    ) -> None:
        self._v8 = engine.v8
        self._dll = engine.v8.dll
        self._heap_bytes = heap_bytes
        self._libraries = libraries
        self._loaded: dict[int, Any] | None = {} if record_code else None
        self._on_event = on_event
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._text = b""
        self._events = 0
        self._event_began_ns = 0
        self._stopping = False
        self._microtasks_before = 0
        self._fault: BaseException | None = None
        # Every callback object lives as long as the isolate: V8 keeps only its address.
        self._callback = ENGINE_CALLBACK(self._hooked)
        self._reject_callback = REJECT_CALLBACK(self._promise_event)
        self._memory = MemoryGuard(engine.v8, heap_bytes=heap_bytes, on_fatal=engine.on_fatal)
        self._context = self._dll.mr_init_context(self._callback)
        self._dll.mr_set_hard_memory_limit(self._context, heap_bytes)
        self._closed = False
        self._global = self._evaluate("globalThis")
        for hook, name in _HOOKS.items():
            self._install(hook, name)
        for index in range(len(libraries)):
            self._install(_LOAD_FIRST + index, f"__load{index}")
        self._evaluate(_BIND)
        self._recorder = None
        if record_code:
            self._install(_RECORD, "__record")
            self._recorder = self._evaluate("__record")
        self._undefined = self._evaluate("undefined")
        self._no_arguments = self._evaluate("[]")

    # -- Entering

    def evaluate(self, source: str, *, budget_us: int = 5_000_000) -> Handle | str:
        """Run source text and give its value: a string as such, anything else as a handle."""
        self._begin()
        text = source.encode()
        value = self._dll.mr_alloc_string_val(self._context, text, len(text), _STRING)
        self._dll.mr_eval(self._context, value, _RESULT)
        self._dll.mr_free_value(self._context, value)
        return self._finish(budget_us)

    def call(
        self, function: Handle, *, text: bytes = b"", this: Handle | None = None, budget_us: int
    ) -> Handle | str:
        """Call a function without arguments; it may pull `text`. budget_us is CPU per event, not wall time."""
        self._text = text
        self._begin()
        receiver = (this or self._undefined).raw
        self._dll.mr_call_function(self._context, function.raw, receiver, self._no_arguments.raw, _RESULT)
        return self._finish(budget_us)

    def load(self, index: int) -> Handle | str:
        """The value of a library. To be called before the prelude takes the loaders away."""
        return self.evaluate(
            f"((mailbox,load)=>{{load();return mailbox[{MAILBOX_LIBRARY}]}})(globalThis[{_SLOTS}],__load{index})"
        )

    def record_code(self) -> None:
        """Give every library that was loaded here the code that is compiled by now."""
        if self._recorder is None:
            raise EngineError("this isolate does not record code")
        self.call(self._recorder, budget_us=5_000_000)

    def cpu_ns(self) -> int:
        return time.clock_gettime_ns(self._clock)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._dll.mr_free_context(self._context)

    def _begin(self) -> None:
        self._events = 0
        self._event_began_ns = self.cpu_ns()

    def _finish(self, budget_us: int) -> Handle | str:
        """Wait for the result; stop the isolate when one event has used more CPU than it may."""
        while True:
            left_us = budget_us - self._used_us()
            try:
                raw = self._results.get(timeout=min(max(left_us, 1_000) / 1e6, _LOOK_INTERVAL_S))
            except queue.Empty:
                used_us = self._used_us()
                if used_us < budget_us:
                    if self.microtasks - self._microtasks_before > STORM_MICROTASKS:
                        self._memory.weather_storm(self._context)
                    continue
                self._stopping = True
                self._v8.terminate(self._isolate)
                self._dll.mr_free_value(self._context, self._results.get())
                raise StoppedError("cpu", budget_us, max(used_us, budget_us + 1)) from None
            return self._converted(raw)

    def _used_us(self) -> int:
        return (self.cpu_ns() - self._event_began_ns) // 1_000

    @property
    def microtasks(self) -> int:
        """How many the isolate has run so far; readable from any thread."""
        return ctypes.c_int64.from_address(self._queue + _FINISHED_MICROTASKS_OFFSET).value

    def _converted(self, raw: Any) -> Handle | str:
        type_, content = raw.contents.type, raw.contents
        if self._fault is not None:
            raise EngineError(f"a hook of the engine failed: {self._fault!r}") from self._fault
        if self._memory.hit or type_ == _OOM or self._dll.mr_hard_memory_limit_reached(self._context):
            raise StoppedError("heap", self._heap_bytes, self._memory.used(self._context))
        if type_ == _STRING:
            text = ctypes.string_at(content.value.value_ptr, content.len)
            self._dll.mr_free_value(self._context, raw)
            return text.decode()
        if type_ < _THREW:
            return Handle(raw, type_)
        message = ctypes.string_at(content.value.value_ptr, content.len).decode(errors="replace")
        self._dll.mr_free_value(self._context, raw)
        if type_ in {_THREW, _PARSE}:
            raise ScriptThrewError(message)
        raise EngineError(f"the engine answered {type_}: {message}")

    def _evaluate(self, source: str) -> Handle:
        text = source.encode()
        value = self._dll.mr_alloc_string_val(self._context, text, len(text), _STRING)
        self._dll.mr_eval(self._context, value, _RESULT)
        self._dll.mr_free_value(self._context, value)
        raw = self._results.get()
        return Handle(raw, raw.contents.type)

    def _install(self, hook: int, name: str) -> None:
        dll, context = self._dll, self._context
        function = dll.mr_make_js_callback(context, hook)
        key = dll.mr_alloc_string_val(context, name.encode(), len(name), _STRING)
        for value in (dll.mr_set_object_item(context, self._global.raw, key, function), function, key):
            dll.mr_free_value(context, value)

    # -- Hooks: all run on the isolate's own thread, inside V8

    def _hooked(self, hook: int, raw: Any) -> None:
        if hook == _RESULT:
            self._results.put(raw)
            return
        try:
            if hook == _DRAIN:
                self._drain()
            elif hook == _SWEEP:
                self._v8.drain_microtasks(self._isolate)
            elif hook == _PULL:
                self._put_text(self._mailbox, MAILBOX_TEXT, self._text)
            elif hook == _INIT:
                self._bind_thread()
            elif hook == _WEIGH:
                self._memory.weigh()
            elif hook == _EXHAUST:
                self._memory.exhaust()
            elif hook == _RECORD:
                self._record()
            else:
                self._load(hook - _LOAD_FIRST)
        except BaseException as error:
            self._fault = error
        self._dll.mr_free_value(self._context, raw)

    def _bind_thread(self) -> None:
        v8 = self._v8
        self._isolate = v8.current_isolate()
        self._clock = (~threading.get_native_id() << 3) | 6
        context = v8.current_context(self._isolate)
        self._queue = v8.microtask_queue(context)
        global_ = v8.global_object(context)
        self._mailbox = self._kept(v8.get_index(global_, context, _SLOTS))
        self._rejections = Rejections(v8, self._kept(v8.get_index(global_, context, _SLOTS + 1)))
        v8.set_reject_callback(self._isolate, self._reject_callback)
        self._memory.attach(self._isolate)

    def _kept(self, local: int) -> Any:
        return self._v8.globalize(self._isolate, ctypes.c_uint64.from_address(local).value)

    def _drain(self) -> None:
        self._microtasks_before = self.microtasks
        self._v8.drain_microtasks(self._isolate)
        if self._stopping or self._memory.hit or self._dll.mr_hard_memory_limit_reached(self._context):
            return  # the event is not over: it was stopped
        self._events += 1
        if self._on_event is not None:
            self._on_event(self._events)
        self._event_began_ns = self.cpu_ns()

    def _put_text(self, target: Any, index: int, text: bytes) -> None:
        v8 = self._v8
        context = v8.current_context(self._isolate)
        v8.put_index(target, context, index, v8.new_string(self._isolate, text, 0, len(text)))

    def _load(self, index: int) -> None:
        """Compile a library inside the call that first needs it; most scripts need none but the prelude."""
        unbound, value = code.load(self._v8, self._isolate, self._libraries[index])
        if self._loaded is not None and unbound:
            self._loaded[index] = self._kept(unbound)
        if value:
            context = self._v8.current_context(self._isolate)
            self._v8.put_index(self._mailbox, context, MAILBOX_LIBRARY, value)

    def _record(self) -> None:
        for index, unbound in (self._loaded or {}).items():
            self._libraries[index].cache = code.code_cache(self._v8, unbound)

    def _promise_event(self, message: RejectMessage) -> None:
        try:
            self._rejections.note(message, self._v8.current_context(self._isolate))
        except BaseException as error:
            self._fault = error
