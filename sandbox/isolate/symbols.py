"""V8's own C++ functions, which the pinned engine library exports beside its C interface.

The library lacks three things that durable scripts need: to hear of rejected promises, to drain microtasks
inside a call, and to act before the heap limit kills the process. V8 has them all. This is a private binary
interface: the wheel is pinned, the boot self-test tries every function, and it is tied to the epoch.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

from py_mini_racer._dll import MR_CALLBACK, init_mini_racer

ENGINE_CALLBACK = MR_CALLBACK


class RejectMessage(ctypes.Structure):
    """v8::PromiseRejectMessage, passed by value. event 0: rejected without a handler; 1: a handler came later."""

    _fields_ = [("promise", c_void_p), ("event", c_int), ("value", c_void_p)]


REJECT_CALLBACK = ctypes.CFUNCTYPE(None, RejectMessage)
HEAP_CALLBACK = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_size_t, c_size_t)
GC_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_int, c_void_p)
OOM_CALLBACK = ctypes.CFUNCTYPE(None, c_char_p, c_void_p)

_ISOLATE = "_ZN2v87Isolate"
_LOCAL_CONTEXT = "ENS_5LocalINS_7ContextEEE"


class MissingSymbolError(Exception):
    """The engine library does not export a function that Rewind needs: it is not the pinned build."""


class V8:
    """The functions, typed. Locals are `void*` to a handle slot; Maybe<bool> is returned in two bytes."""

    def __init__(self, flags: list[str]) -> None:
        self.dll = init_mini_racer(flags=flags)
        self._bind_isolate(self._bind)
        self._bind_objects(self._bind)
        self._bind_scripts(self._bind)

    def _bind_isolate(self, bind: Callable[..., Any]) -> None:
        self.current_isolate = bind(_ISOLATE + "10GetCurrentEv", c_void_p)
        self.current_context = bind(_ISOLATE + "17GetCurrentContextEv", c_void_p, c_void_p)
        self.set_reject_callback = bind(
            _ISOLATE + "24SetPromiseRejectCallbackEPFvNS_20PromiseRejectMessageEE",
            None,
            c_void_p,
            REJECT_CALLBACK,
        )
        self.drain_microtasks = bind(_ISOLATE + "26PerformMicrotaskCheckpointEv", None, c_void_p)
        self.terminate = bind(_ISOLATE + "18TerminateExecutionEv", None, c_void_p)
        self.add_heap_callback = bind(
            _ISOLATE + "24AddNearHeapLimitCallbackEPFmPvmmES1_", None, c_void_p, HEAP_CALLBACK, c_void_p
        )
        self.add_gc_epilogue = bind(
            _ISOLATE + "21AddGCEpilogueCallbackEPFvPS0_NS_6GCTypeENS_15GCCallbackFlagsEPvES4_S2_",
            None,
            c_void_p,
            GC_CALLBACK,
            c_void_p,
            c_int,
        )
        self.external_memory = bind(
            _ISOLATE + "37AdjustAmountOfExternalAllocatedMemoryEl", c_int64, c_void_p, c_int64
        )
        self.set_oom_callback = bind(
            _ISOLATE + "18SetOOMErrorHandlerEPFvPKcRKNS_10OOMDetailsEE", None, c_void_p, OOM_CALLBACK
        )
        self.collect_garbage = bind(_ISOLATE + "21LowMemoryNotificationEv", None, c_void_p)
        self.microtask_queue = bind("_ZN2v87Context17GetMicrotaskQueueEv", c_void_p, c_void_p)

    def _bind_objects(self, bind: Callable[..., Any]) -> None:
        self.global_object = bind("_ZN2v87Context6GlobalEv", c_void_p, c_void_p)
        self.globalize = bind(
            "_ZN2v812api_internal18GlobalizeReferenceEPNS_8internal7IsolateEm", c_void_p, c_void_p, c_uint64
        )
        self.get_index = bind(
            "_ZN2v86Object3Get" + _LOCAL_CONTEXT + "j", c_void_p, c_void_p, c_void_p, c_uint32
        )
        self.put_index = bind(
            "_ZN2v86Object18CreateDataProperty" + _LOCAL_CONTEXT + "jNS1_INS_5ValueEEE",
            c_uint16,
            c_void_p,
            c_void_p,
            c_uint32,
            c_void_p,
        )
        self.delete_index = bind(
            "_ZN2v86Object6Delete" + _LOCAL_CONTEXT + "j", c_uint16, c_void_p, c_void_p, c_uint32
        )
        self.identity_hash = bind("_ZN2v86Object15GetIdentityHashEv", c_int, c_void_p)

    def _bind_scripts(self, bind: Callable[..., Any]) -> None:
        self.new_string = bind(
            "_ZN2v86String11NewFromUtf8EPNS_7IsolateEPKcNS_13NewStringTypeEi",
            c_void_p,
            c_void_p,
            c_char_p,
            c_int,
            c_int,
        )
        self.compile_unbound = bind(
            "_ZN2v814ScriptCompiler20CompileUnboundScriptEPNS_7IsolateEPNS0_6SourceE"
            "NS0_14CompileOptionsENS0_13NoCacheReasonE",
            c_void_p,
            c_void_p,
            c_void_p,
            c_int,
            c_int,
        )
        self.bind_script = bind("_ZN2v813UnboundScript20BindToCurrentContextEv", c_void_p, c_void_p)
        self.create_code_cache = bind(
            "_ZN2v814ScriptCompiler15CreateCodeCacheENS_5LocalINS_13UnboundScriptEEE", c_void_p, c_void_p
        )
        self.run = bind("_ZN2v86Script3Run" + _LOCAL_CONTEXT, c_void_p, c_void_p, c_void_p)

    @property
    def version(self) -> str:
        text: bytes = self.dll.mr_v8_version()
        return text.decode()

    @property
    def has_v8_sandbox(self) -> bool:
        return bool(self.dll.mr_v8_is_using_sandbox())

    def _bind(self, name: str, result: Any, *arguments: Any) -> Any:
        try:
            function = getattr(self.dll, name)
        except AttributeError:
            raise MissingSymbolError(
                f"the JavaScript engine library has no function {name}: install the pinned mini-racer wheel"
            ) from None
        function.restype = result
        function.argtypes = arguments
        return function


__all__ = [
    "ENGINE_CALLBACK",
    "GC_CALLBACK",
    "HEAP_CALLBACK",
    "OOM_CALLBACK",
    "REJECT_CALLBACK",
    "V8",
    "MissingSymbolError",
    "RejectMessage",
]
