"""The process that makes a `ValueChecks`' checks: `python -m sandbox.compiler.value_child`.

It writes READY, then reads a schema and a value, behind their lengths, and writes `[[path, problem], …]`, behind its
length, until its input ends. A check that takes too much processor time or memory ends the process: the kernel's
timer needs nobody's cooperation.
"""

import os
import resource
import signal
import struct
import sys
from typing import BinaryIO

import orjson

from sandbox.compiler.json_schema import ValueValidator
from sandbox.journal.canonical import parse_json

CPU_S = 2.0
ADDRESS_BYTES_MAX = 2 << 30
VALIDATORS_MAX = 32
LENGTH = struct.Struct("<II")
ANSWER_LENGTH = struct.Struct("<I")
READY = b"\n"


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent decides
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    validators: dict[bytes, ValueValidator] = {}
    answers.write(READY)
    answers.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a check has to say as it dies is nobody's log
    while header := asked.read(LENGTH.size):
        schema_bytes, value_bytes = LENGTH.unpack(header)
        schema, value = asked.read(schema_bytes), asked.read(value_bytes)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        validator = validators.pop(schema, None) or ValueValidator(orjson.loads(schema))
        answer = orjson.dumps(validator.problems(parse_json(value)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        validators[schema] = validator
        if len(validators) > VALIDATORS_MAX:
            del validators[next(iter(validators))]
        answers.write(ANSWER_LENGTH.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    main()
