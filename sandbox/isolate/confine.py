"""Take from this process everything that running scripts does not need. Linux; each layer where the host allows.

Applied once the engine is warm (it needs files to start) and before any isolate exists (namespaces can only be
left by a process with one thread). What is missing is reported, never hidden.
"""

import ctypes
import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable

from sandbox.isolate.seccomp import SeccompUnavailableError, install_filter

LAYERS = ("uid", "namespaces", "landlock", "seccomp", "limits", "parent")
ON = "on"

DATA_BYTES_MAX = 3 * 1024**3
"""Private writable memory: V8's heap grace and the stacks of many isolates' threads fit, a runaway buffer does not."""
THREAD_STACK_BYTES = 2 * 1024 * 1024
OPEN_FILES_MAX = 64

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x08000000
_CLONE_NEWCGROUP, _CLONE_NEWNS, _CLONE_NEWUTS = 0x02000000, 0x00020000, 0x04000000
_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_PATH_BENEATH = 1
_FILE_EXECUTE, _FILE_READ = 0b001, 0b100
_LANDLOCK_VERSION_FLAG = 1
_FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many file rights each version of landlock knows; later versions know what 5 knows."""
_NET_RIGHTS, _SCOPES = 0b11, 0b11


class UnavailableError(Exception):
    """The host does not allow this layer; the message says why."""


_libc = ctypes.CDLL(None, use_errno=True)


def confine(*, uid: int | None, parent: int, program: int | None = None) -> dict[str, str]:
    """Apply every layer that the host allows. uid: the child's own, given when the parent is root.

    program: descriptor of the one file that this process may still execute, to become it; None: it executes none.
    Shapes: layer name -> "on", or the reason why it is off.
    """
    steps: dict[str, Callable[[], None]] = {
        "uid": lambda: _own_uid(uid),
        "namespaces": _namespaces,
        "limits": _limits,
        "parent": lambda: _die_with(parent),
        "landlock": lambda: _landlock(program),
        "seccomp": lambda: install_filter(may_execute=program is not None),
    }
    result: dict[str, str] = {}
    if sys.platform != "linux":
        return dict.fromkeys(LAYERS, f"needs Linux, this is {sys.platform}")
    for layer, apply in steps.items():
        try:
            apply()
        except (UnavailableError, SeccompUnavailableError, OSError) as error:
            result[layer] = str(error) or type(error).__name__
        else:
            result[layer] = ON
    return result


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise UnavailableError(f"{what}: {os.strerror(code)}")
    return result


def _own_uid(uid: int | None) -> None:
    if uid is None:
        raise UnavailableError("the worker does not run as root, so its children share its user")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _namespaces() -> None:
    flags = _CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWCGROUP | _CLONE_NEWNS | _CLONE_NEWUTS
    _check(_libc.unshare(flags), "unshare(user, net, ipc, cgroup, mount, uts)")
    # The first process of a user namespace has every capability in it: give them all up.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def _limits() -> None:
    _thread_stacks(THREAD_STACK_BYTES)
    for name, value in (
        (resource.RLIMIT_DATA, DATA_BYTES_MAX),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES_MAX),
    ):
        resource.setrlimit(name, (value, value))


def _thread_stacks(stack_bytes: int) -> None:
    """Isolates' threads need a fraction of the usual 8 MiB, which would count against RLIMIT_DATA."""
    attributes = ctypes.create_string_buffer(64)
    if not hasattr(_libc, "pthread_setattr_default_np"):
        return
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(stack_bytes))
    _libc.pthread_setattr_default_np(attributes)
    _libc.pthread_attr_destroy(attributes)


def _die_with(parent: int) -> None:
    """Set after the change of uid, which clears it; then look whether the parent was faster."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def _landlock(program: int | None) -> None:
    """No file but the program can be opened any more; no TCP, abstract socket or signal either where known."""
    abi = _libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION_FLAG)
    if abi < 1:
        code = ctypes.get_errno()
        why = "the kernel lacks it" if code == errno.ENOSYS else os.strerror(code)
        raise UnavailableError(f"landlock: {why}")
    files = (1 << _FILE_RIGHTS_BY_ABI[min(abi, 5)]) - 1
    attributes = (ctypes.c_uint64 * 3)(files, _NET_RIGHTS if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _check(
        _libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0),
        "landlock_create_ruleset",
    )
    try:
        if program is not None:
            rule = struct.pack("=Qi", _FILE_EXECUTE | _FILE_READ, program)
            _check(
                _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_PATH_BENEATH, rule, 0),
                "landlock_add_rule",
            )
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")
        _check(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)
