"""Requests to the local sandbox, and their answers. The same engine as a worker's; nothing is recorded anywhere.

    {"id", "verb": "replay", "script", "journal": [entries as the API gives them, values inline],
     "toolset"?: {"tools"}, "run"?, "namespace"?, "overrides"?}   → the body of POST /runs/{id}/replay
    {"id", "verb": "verify", as replay, "root"?, "entries"?: how many the seal counts}
                                → {values_ok, wrong_values, missing, root, root_ok, replayable, matches, diverged_at}
    {"id", "verb": "test", "script", "toolset"?, "namespace"?, "input"?, "mocks"?, "signals"?, …}
                                                                  → the body of POST /scripts/test

An answer is `{"id", "result"}` or `{"id", "error": {"code", "message", …}}`; `id` is given back as it came.
"""

import logging
from collections.abc import Mapping
from typing import Any

import orjson

from sandbox.activation.reenact import TEST_RUN, Sandbox, replay_run, stored_of_wire, try_script
from sandbox.activation.reenacted import Play
from sandbox.activation.setup import pinned_tools
from sandbox.activation.texts import Texts
from sandbox.epochs.registry import CURRENT, served_epochs
from sandbox.isolate.api import ChildDied, SandboxFault
from sandbox.isolate.compiled import Compiled
from sandbox.journal.canonical import CanonicalError, canonical_text, sha256_hex
from sandbox.journal.codec import decode_body
from sandbox.journal.entries import RunStarted
from sandbox.journal.errors import RewindFault
from sandbox.journal.ids import NamespaceId, RunId, Sha256
from sandbox.store.interface import StoredEntry
from sandbox.store.seal import VALUE_FIELDS, Root

logger = logging.getLogger(__name__)

NAMESPACE = NamespaceId("local")
SEALED_ENTRIES_MAX = 10_000_000
MISSING_SHOWN = 100


class RequestError(Exception):
    """The caller's; `extra` is given back beside code and message."""

    def __init__(self, code: str, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.extra = extra


class _Inline(Texts):
    """No object store: an exported journal has its values inline."""

    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes:
        try:
            return await super().get(namespace, sha256)
        except KeyError:
            raise RequestError(
                "value_missing",
                f"the journal names the value {sha256} but does not hold it: export it whole",
            ) from None


async def answer_line(sandbox: Sandbox, line: bytes) -> bytes:
    """Answer one request. Never raises for what a request says."""
    ident: Any = None
    try:
        request = _parsed(line)
        ident = request.get("id")
        result = await _answer(sandbox, request)
    except RequestError as error:
        failure = {"code": error.code, "message": error.message, **error.extra}
        return orjson.dumps({"id": ident, "error": failure})
    except (ChildDied, SandboxFault, RewindFault) as error:
        logger.exception("a request failed in the sandbox")
        failure = {"code": getattr(error, "code", "internal"), "message": str(error)}
        return orjson.dumps({"id": ident, "error": failure})
    return orjson.dumps({"id": ident, "result": result})


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise RequestError("invalid_request", f"a request is one line of JSON: {error}") from error
    if not isinstance(request, dict):
        raise RequestError("invalid_request", "a request is an object: {id, verb, script, …}")
    return request


async def _answer(sandbox: Sandbox, request: Mapping[str, Any]) -> dict[str, Any]:
    match request.get("verb"):
        case "replay":
            return await _replay(sandbox, request)
        case "verify":
            return await _verify(sandbox, request)
        case "test":
            return await _test(sandbox, request)
        case other:
            raise RequestError("invalid_request", f"verb is {other!r}: use replay, verify or test")


async def _replay(sandbox: Sandbox, request: Mapping[str, Any]) -> dict[str, Any]:
    values = _Inline()
    source, entries = _text(request, "script"), _entries(request.get("journal"), values)
    started, _ = decode_body(entries[0].type, entries[0].body)
    if not isinstance(started, RunStarted):
        raise RequestError("invalid_request", "journal does not begin with run_started")
    if started.epoch not in served_epochs():
        raise RequestError(
            "epoch_unavailable",
            f"the run is of epoch {started.epoch}, this sandbox has {', '.join(map(str, served_epochs()))}: "
            "install the version of rewind-sandbox that it ran with",
        )
    compiled = await sandbox.strip(source, started.epoch)
    if not isinstance(compiled, Compiled):
        raise _refused(compiled)
    play = Play(
        run=RunId(str(request.get("run", TEST_RUN))),
        namespace=NAMESPACE,
        namespace_name=str(request.get("namespace", NAMESPACE)),
        epoch=started.epoch,
        compiled=compiled,
        tools=pinned_tools(_tools(request)),
        limits=started.limits,
        source=source,
    )
    return await replay_run(
        sandbox,
        play,
        entries,
        values,
        overrides=request.get("overrides"),
        own_script=request.get("own_script", True) is True,
    )


async def _verify(sandbox: Sandbox, request: Mapping[str, Any]) -> dict[str, Any]:
    """Values against their digests, the journal against its root, then a full replay if it is whole."""
    entries = _entries(request.get("journal"), _Inline(), whole=False)
    sealed = request.get("entries", 0)
    if not isinstance(sealed, int) or not 0 <= sealed <= SEALED_ENTRIES_MAX:
        raise RequestError("invalid_request", "entries must be the number of entries that the seal counts")
    present = {entry.seq for entry in entries}
    missing = [seq for seq in range(max(sealed, entries[-1].seq + 1)) if seq not in present]
    wrong = [wire["seq"] for wire in request["journal"] if not _digests_hold(wire)]
    root = Root(RunId(str(request.get("run", TEST_RUN))))
    root.add(entries)
    replayed = {"unavailable": "entries are missing"} if missing else await _replay(sandbox, request)
    return {
        "values_ok": not wrong,
        "wrong_values": wrong,
        "missing": missing[:MISSING_SHOWN],
        "root": root.hex(),
        "root_ok": None if request.get("root") is None else request["root"] == root.hex(),
        "replayable": "unavailable" not in replayed,
        "matches": replayed.get("matches"),
        "diverged_at": replayed.get("diverged_at"),
    }


def _digests_hold(wire: Mapping[str, Any]) -> bool:
    """Whether the values that stand in an entry, or in its error, are those that it names."""
    error = wire.get("error")
    holders = (wire, error) if isinstance(error, dict) else (wire,)
    return all(_digest_holds(holder.get(name)) for holder in holders for name in VALUE_FIELDS)


def _digest_holds(value: Any) -> bool:
    """Whether a value that stands in an entry is the one that the entry names."""
    if not isinstance(value, dict) or "value" not in value:
        return True
    text = canonical_text(value["value"])
    return bool(value.get("sha256") == sha256_hex(text) and value.get("bytes") == len(text))


async def _test(sandbox: Sandbox, request: Mapping[str, Any]) -> dict[str, Any]:
    question = {"namespace": str(NAMESPACE), "epoch": int(CURRENT), **request}
    question |= {"source": _text(request, "script"), "tools": _tools(request)}
    question.pop("toolset", None)
    return await try_script(sandbox, question, NAMESPACE)


def _text(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise RequestError("invalid_request", f"{name} must be the source text")
    return value


def _tools(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = (request.get("toolset") or {}).get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) and "name" in tool for tool in tools):
        raise RequestError("invalid_request", "toolset.tools must be a list of tools, each with its name")
    return tools


def _entries(journal: Any, values: Texts, *, whole: bool = True) -> list[StoredEntry]:
    """`whole` false: entries may be missing, which is what is looked for."""
    if not isinstance(journal, list) or not journal:
        raise RequestError("invalid_request", "journal must be the list of the run's entries")
    entries: list[StoredEntry] = []
    for index, wire in enumerate(journal):
        try:
            entry = stored_of_wire(wire, values)
            decode_body(entry.type, entry.body)
        except (KeyError, TypeError, ValueError, AttributeError, CanonicalError, RewindFault) as error:
            raise RequestError("invalid_request", f"journal[{index}] is no entry: {error!r}") from error
        expected = index if whole or not entries else max(index, entries[-1].seq + 1)
        if entry.seq < expected or (whole and entry.seq > expected):
            raise RequestError(
                "invalid_request", f"journal[{index}] has seq {entry.seq}: export the whole journal"
            )
        entries.append(entry)
    return entries


def _refused(diagnostics: Any) -> RequestError:
    found = [diagnostic.to_json() for diagnostic in diagnostics]
    return RequestError("script_refused", found[0]["message"], diagnostics=found)
