"""A system-call allow-list, assembled by hand: fresh machines may lack libseccomp.

Everything that opens, connects, executes, forks, traces or signals others is refused with EPERM. New threads
are allowed (every isolate has one), new processes are not.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping

_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENT_0 = 0, 4, 16
_CLONE_THREAD = 0x00010000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_PR_SET_NAME, _PR_SET_VMA = 15, 0x53564D41

# x86_64 and aarch64 numbers of each call; None where the architecture has no such call.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "poll": (7, None),
    "ppoll": (271, 73),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "exit": (60, 93),
    "select": (23, None),
    "pselect6": (270, 72),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "times": (100, 153),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "set_tid_address": (218, 96),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "restart_syscall": (219, 128),
    "set_robust_list": (273, 99),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "pkey_mprotect": (329, 288),
    "rseq": (334, 293),
}
# What a Go program needs besides, and the call by which the process becomes it. Which files it may execute is
# landlock's matter; a namespace without network and a user of its own hold where the host lacks landlock.
_EXECUTING: dict[str, tuple[int | None, int | None]] = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "arch_prctl": (158, None),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "pipe2": (293, 59),
    "fcntl": (72, 25),
    "dup2": (33, None),
    "dup3": (292, 24),
    "prlimit64": (302, 261),
    "mincore": (27, 232),
    "uname": (63, 160),
    "readlinkat": (267, 78),
    "getcwd": (79, 17),
    "timer_create": (222, 107),
    "timer_settime": (223, 110),
    "timer_delete": (226, 111),
    "getppid": (110, 173),
}
_CLONE, _CLONE3, _PRCTL, _TGKILL = (56, 220), (435, 435), (157, 167), (234, 131)
_AUDIT = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class SeccompUnavailableError(Exception):
    """The host cannot filter system calls; the message says why."""


def install_filter(*, may_execute: bool = False) -> None:
    """For this thread and all that it starts. Errors: SeccompUnavailableError."""
    machine = platform.machine()
    if machine not in _AUDIT:
        raise SeccompUnavailableError(f"no system-call list for {machine}")
    calls = {**_CALLS, **_EXECUTING} if may_execute else _CALLS
    program = _program(*_AUDIT[machine], calls=calls, pid=os.getpid())
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0:
        raise SeccompUnavailableError(f"prctl(NO_NEW_PRIVS): {os.strerror(ctypes.get_errno())}")
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) < 0:
        raise SeccompUnavailableError(f"prctl(SECCOMP): {os.strerror(ctypes.get_errno())}")


def _program(
    audit: int, column: int, *, calls: Mapping[str, tuple[int | None, int | None]], pid: int
) -> bytes:
    """Jumps are relative and at most 255, so every rule ends in its own return."""
    lines = [
        _line(_LOAD, 0, 0, _ARCHITECTURE),
        _line(_JUMP_EQUAL, 1, 0, audit),
        _line(_RETURN, 0, 0, _KILL),
        _line(_LOAD, 0, 0, _NUMBER),
    ]
    for numbers in calls.values():
        number = numbers[column]
        if number is not None:
            lines += [_line(_JUMP_EQUAL, 0, 1, number), _line(_RETURN, 0, 0, _ALLOW)]
    refuse = _ERRNO | errno.EPERM
    # glibc falls back to clone, whose flags can be seen, when clone3 does not exist.
    lines += [_line(_JUMP_EQUAL, 0, 1, _CLONE3[column]), _line(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    lines += [
        _line(_JUMP_EQUAL, 0, 4, _CLONE[column]),
        _line(_LOAD, 0, 0, _ARGUMENT_0),
        _line(_JUMP_SET, 0, 1, _CLONE_THREAD),
        _line(_RETURN, 0, 0, _ALLOW),
        _line(_RETURN, 0, 0, refuse),
    ]
    for call, allowed in ((_PRCTL[column], (_PR_SET_NAME, _PR_SET_VMA)), (_TGKILL[column], (pid,))):
        lines += [_line(_JUMP_EQUAL, 0, 2 + 2 * len(allowed), call), _line(_LOAD, 0, 0, _ARGUMENT_0)]
        for value in allowed:
            lines += [_line(_JUMP_EQUAL, 0, 1, value), _line(_RETURN, 0, 0, _ALLOW)]
        lines.append(_line(_RETURN, 0, 0, refuse))
    lines.append(_line(_RETURN, 0, 0, refuse))
    return b"".join(lines)


def _line(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("@HBBI", code, if_true, if_false, value)
