"""Each layer of the confinement by itself: behind the system-call filter the others would never be tried.

The layer `parent` is tried in test_limits.py: children die with a killed worker.
"""

import asyncio
import contextlib
import json
import os
import re
import sys
from pathlib import Path

import pytest

from sandbox.isolate.pool import ChildPool
from tests.sandbox.isolate.test_limits import LOOP, opened, started

ROOT = Path(__file__).resolve().parents[3]
REFUSED = {
    "uid": {"become root": "EPERM"},
    "namespaces": {"connect": "ENETUNREACH", "mount": "EPERM"},
    "landlock": {"read": "EACCES", "list": "EACCES"},
    "seccomp": {"socket": "EPERM", "fork": "EPERM", "read": "EPERM"},
    "limits": {"write": "EFBIG", "open": "EMFILE", "core": "0"},
}
REGION_BYTES_MAX = 256 * 1024 * 1024


@pytest.mark.parametrize("layer", REFUSED)
async def test_a_layer_alone_refuses_what_it_is_there_for(layer: str) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.sandbox.isolate.one_layer",
            layer,
            str(port),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
    result = json.loads(output)
    if "off" in result:
        pytest.skip(f"this host does not allow it: {result['off']}")
    result = {what: how for what, how in result.items() if how}
    assert result == REFUSED[layer]


def contains(pid: int, needles: list[bytes]) -> set[str]:
    """Which secrets are anywhere in the process: environment, arguments, descriptors, memory."""
    home = Path(f"/proc/{pid}")
    found = set()
    texts = {name: (home / name).read_bytes() for name in ("environ", "cmdline")}
    for link in (home / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # our own: the folder's, already closed
            texts[f"fd {link.name}"] = str(link.readlink()).encode()
    found |= {name for name, text in texts.items() for needle in needles if needle in text}
    with (home / "mem").open("rb", buffering=0) as memory:
        for line in (home / "maps").read_text().splitlines():
            span = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if span is None or "[v" in line:
                continue
            first, last = int(span[1], 16), int(span[2], 16)
            if last - first > REGION_BYTES_MAX:
                continue
            memory.seek(first)
            try:
                text = memory.read(last - first)
            except OSError:
                continue
            found |= {line for needle in needles if needle in text}
    return found


async def test_a_child_holds_no_secret_of_its_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secrets = [f"planted-{kind}-{os.urandom(8).hex()}" for kind in ("password", "data-key", "s3")]
    key_file = tmp_path / "data.key"
    key_file.write_text(secrets[1])
    monkeypatch.setenv("REWIND_DATABASE_URL", f"postgresql://worker:{secrets[0]}@127.0.0.1/rewind")
    monkeypatch.setenv("REWIND_DATA_KEY_FILE", str(key_file))
    monkeypatch.setenv("REWIND_S3_URL", f"s3+http://key:{secrets[2]}@127.0.0.1:9000/values")
    needles = [secret.encode() for secret in secrets]
    with key_file.open() as held:
        assert held.read() == secrets[1]
        async with ChildPool(children=1) as pool:
            isolate = await opened(pool, LOOP)
            await isolate.deliver([started("a value that the script got")])
            pid = pool.children[0].pid
            try:
                assert contains(os.getpid(), needles), "the scan finds them where they are"
                assert contains(pid, [b"a value that the script got"]), "the scan reads the child's memory"
                assert contains(pid, needles) == set()
            except PermissionError as error:
                pytest.skip(f"the memory of a child can be read by root alone: {error}")
            await isolate.close()
