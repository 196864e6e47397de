"""Where a secret could be left: every place of a deployment as bytes, and a search that knows how it may be written."""

import base64
import functools
import json
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import quote

IN_MEMORY = frozenset({"plain", "utf-16"})
"""Whatever else is made of a secret there is in what the process sends as well."""
_REGION = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r(w|-)")


@functools.cache
def written(value: str) -> dict[str, bytes]:
    """A value as it may stand in a file, a table, an answer or in memory."""
    data = value.encode()
    found = {
        "plain": data,
        "json": json.dumps(value)[1:-1].encode(),
        "url": quote(value, safe="").encode(),
        "hex": data.hex().encode(),
        "utf-16": value.encode("utf-16-le"),
    }
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + data + b"\0" * 3)
        # Only what the neighbours do not change.
        inner = coded[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        found[f"base64 at {before}"] = inner
        found[f"base64url at {before}"] = inner.replace(b"+", b"-").replace(b"/", b"_")
    return found


def hits(place: bytes, secrets: dict[str, str], ways: Collection[str] | None = None) -> list[str]:
    """Which secrets stand there, and how they are written; `ways`: only those are looked for."""
    return [
        f"{name} ({how})"
        for name, value in secrets.items()
        for how, needle in written(value).items()
        if (ways is None or how in ways) and needle in place
    ]


def below(folder: Path, *, without: Iterable[Path] = ()) -> bytes:
    """Every file of a folder, with its name."""
    left_out = set(without)
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path not in left_out:
            parts += [str(path).encode(), path.read_bytes()]
    return b"\0".join(parts)


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    children: dict[int, list[int]] = {}
    for one in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((one / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(one.name))
    found = [pid]
    for known in found:
        found += children.get(known, [])
    return found


def given(pid: int) -> bytes:
    """What a process was started with: its environment and arguments."""
    return b"\0".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))


def memory(pid: int) -> bytes:
    """What a process can write to, as it is now."""
    parts = []
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            found = _REGION.match(line)
            if found is None or found[3] != "w":
                continue
            start, end = int(found[1], 16), int(found[2], 16)
            while start < end:
                try:
                    part = os.pread(descriptor, min(end - start, 1 << 24), start)
                except OSError:  # never touched, or of a device
                    break
                if not part:
                    break
                parts.append(part)
                start += len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)
