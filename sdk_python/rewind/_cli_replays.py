"""The verbs `cassette`, `replay`, `verify` and `test`: runs executed again, without effects."""

import argparse
import hashlib
import json
import sys
from typing import Any

from rewind import _local
from rewind._cli_base import RUN_HELP, Console, Usage, json_argument, read_file, remote_verb
from rewind._cli_differences import divergence_text
from rewind._client import Rewind
from rewind._core import Call
from rewind._errors import PermissionDenied
from rewind._style import counted, without_escapes
from rewind.journal_text import error_text

OK, DIFFERS, USAGE, REFUSED = 0, 1, 2, 3
VALUE_FIELDS = ("input", "args", "result", "payload", "output")
_ENDS = {
    "complete_run": "completed",
    "fail_run": "failed",
    "cancel_run": "cancelled",
    "run_aborted": "aborted",
}
_EXITS = {"not_installed": USAGE, "invalid_request": USAGE, "script_refused": REFUSED}

Verbs = argparse._SubParsersAction


def register(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    cassette = remote_verb(
        verbs, "cassette", print_cassette, help="print a run's calls and signals, for tests"
    )
    cassette.add_argument("run", metavar="RUN", help=RUN_HELP)
    replay = remote_verb(verbs, "replay", replay_run, help="execute a run again here, and compare")
    replay.add_argument("run", metavar="RUN", help=RUN_HELP)
    replay.add_argument(
        "--script", metavar="FILE", help="another script: is it compatible with this history?"
    )
    replay.add_argument(
        "--set", action="append", metavar="CALL=JSON", help="what if this call had answered so?"
    )
    verify = remote_verb(
        verbs, "verify", verify_run, help="check a run's values, its root, and a full replay"
    )
    verify.add_argument("run", metavar="RUN", help=RUN_HELP)
    test = verbs.add_parser("test", help="run a script here in virtual time", description=TEST)
    test.set_defaults(handler=run_test, parser=test)
    test.add_argument("file", metavar="FILE", help="the script (- for stdin)")
    test.add_argument("--input", metavar="JSON", help="argument of main: JSON, @file, or - for stdin")
    test.add_argument("--cassette", metavar="FILE", help="recorded calls, from `rewind cassette RUN`")
    test.add_argument("--mocks", metavar="FILE", help='{"group.tool": [{"args": …, "result": …}]}')
    test.add_argument("--signals", metavar="JSON", help='[{"name", "payload", "at"}], or @file')
    test.add_argument("--approve", action="append", metavar="TOOL", help="needs an approval, which is given")
    test.add_argument("--deny", action="append", metavar="TOOL", help="needs an approval, which is refused")
    test.add_argument("--json", action="store_true", help="print the report as one line of JSON")


TEST = """Run a script on this machine in virtual time; nothing is called. Its tools are those that the mocks and
the cassette answer. Without --input, the cassette's input is taken."""


def print_cassette(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    console.json(client.runs.journal(arguments.run, as_="cassette"))
    return OK


def replay_run(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    request = _request(client, arguments.run) | {"verb": "replay"}
    if arguments.script is not None:
        request |= {"script": read_file(arguments.script), "own_script": False}
    if arguments.set:
        request["overrides"] = dict(_override(text) for text in arguments.set)
    end = _recorded_end(request["journal"])
    return _local_answer(request, console, lambda answer, shown: _show_replay(end | answer, shown))


def verify_run(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    query = {"namespace": client.runs._core.config.namespace}
    path = f"/v1/runs/{arguments.run}/seal"
    seal = client.runs._core.call(Call(method="GET", path=path, query=query), {}).data
    request = _request(client, arguments.run)
    request |= {"verb": "verify", "root": seal["root"], "entries": seal["entries"]}
    chain = _chain(client, request["namespace"], request["run"], seal)

    def show(answer: dict[str, Any], shown: Console | None) -> int:
        if shown and chain is not None:
            shown.line(
                "chain ok"
                if chain
                else "chain broken: the seals of the namespace do not follow from each other"
            )
        return (
            _show_verified(answer, shown)
            if chain is not False
            else max(DIFFERS, _show_verified(answer, shown))
        )

    return _local_answer(request, console, show, extra={"chain_ok": chain})


def run_test(arguments: argparse.Namespace) -> int:
    console = Console.of(sys.stdout, sys.stderr)
    console.as_json = arguments.json
    cassette = _file(arguments.cassette)
    mocks = _file(arguments.mocks)
    decided = dict.fromkeys(arguments.approve or [], "approved")
    decided |= dict.fromkeys(arguments.deny or [], "denied")
    names = {*(mocks or {}), *(call.get("tool") for call in (cassette or {}).get("calls", []))} - {*decided}
    tools: list[dict[str, Any]] = [{"name": name} for name in sorted(map(str, names))]
    tools += [{"name": name, "approval": True} for name in decided]
    given = (cassette or {}).get("input")
    request = {
        "verb": "test",
        "script": read_file(arguments.file),
        "toolset": {"tools": tools},
        "input": given if arguments.input is None else json_argument(arguments.input, "--input"),
        "cassette": cassette,
        "mocks": mocks,
        "approvals": decided,
        "signals": None if arguments.signals is None else json_argument(arguments.signals, "--signals"),
    }
    code = _local_answer(request, console, _show_test)
    if code == DIFFERS and not tools and not arguments.json:
        console.note("There are no tools here: those that --mocks or --cassette answer are the script's.")
    return code


def _recorded_end(journal: list[dict[str, Any]]) -> dict[str, Any]:
    """How the run ended, for an answer that says nothing of it: one that matches."""
    last = journal[-1] if journal else {}
    return {"status": _ENDS.get(last.get("type", ""), "active"), "error": last.get("error")}


# -- What the sandbox needs


def _chain(client: Rewind, namespace: str, run: str, seal: dict[str, Any]) -> bool | None:
    """Whether the namespace's seals follow from each other and this run's is among them; None: not for us to see."""
    try:
        seals = client.namespaces.seals(namespace)
    except PermissionDenied:
        return None
    previous, mine = None, False
    for position, link in enumerate(seals, start=1):
        if link["previous"] != previous or link["position"] != position:
            return False
        mine |= (link["run"], link["root"], link["previous"]) == (run, seal["root"], seal["previous"])
        text = "\n".join(("rewind/1", previous or "", link["run"], link["root"]))
        previous = hashlib.sha256(text.encode()).hexdigest()
    return mine


def _request(client: Rewind, run: str) -> dict[str, Any]:
    """The run with all that it needs to be executed again."""
    found = client.runs.get(run)
    query = {"namespace": client.runs._core.config.namespace}
    path = f"/v1/scripts/{found.raw['script']}"
    script = client.runs._core.call(Call(method="GET", path=path, query=query), {}).data
    toolset = {"tools": []} if found.toolset is None else client.toolsets.get(found.toolset).raw
    journal = [_whole(client, run, entry) for entry in client.runs.journal(run)]
    return {
        "run": found.id,
        "namespace": found.raw["namespace"],
        "script": script["source"],
        "toolset": {"tools": [tool for tool in toolset["tools"] if not tool.get("disabled")]},
        "journal": journal,
    }


def _whole(client: Rewind, run: str, entry: Any) -> Any:
    """An entry with its big values in it."""
    for holder, names in ((entry, VALUE_FIELDS), (entry.get("error") or {}, ("data",))):
        for name in names:
            value = holder.get(name)
            if isinstance(value, dict) and "sha256" in value and not {"value", "redacted"} & value.keys():
                value["value"] = client.runs.values(run, value["sha256"])
    return entry


def _override(text: str) -> tuple[str, dict[str, Any]]:
    call, equals, value = text.partition("=")
    if not equals or not call.isdecimal():
        raise Usage(f"--set takes CALL=JSON such as 3=null, not {text!r}")
    return call, {"result": json_argument(value, f"--set {call}")}


def _file(path: str | None) -> Any:
    if path is None:
        return None
    try:
        found = json.loads(read_file(path))
    except ValueError as error:
        raise Usage(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Usage(f"{path} must hold a JSON object")
    return found


# -- Answers


def _local_answer(
    request: dict[str, Any], console: Console, show: Any, extra: dict[str, Any] | None = None
) -> int:
    try:
        answer = _local.ask(request) | (extra or {})
    except _local.LocalSandboxError as error:
        if console.as_json:
            console.json(error.problem)
        console.error(str(error))
        return _EXITS.get(error.code, DIFFERS)
    if "refused" in answer:
        console.error(f"{answer['refused']['path']}: {answer['refused']['message']}")
        return REFUSED
    if "diagnostics" in answer:
        console.error("\n".join(f"line {d['line']}: {d['message']}" for d in answer["diagnostics"]))
        return REFUSED
    if console.as_json:
        console.json(answer)
        return int(show(answer, None))
    return int(show(answer, console))


def _show_replay(answer: dict[str, Any], console: Console | None) -> int:
    if "unavailable" in answer:
        if console:
            console.error(answer["unavailable"])
        return DIFFERS
    stopped, diverged = answer.get("stopped_at"), answer.get("diverged_at")
    if console:
        if diverged:
            console.line(divergence_text(diverged))
        elif stopped:
            shown = f"{stopped['tool']} #{stopped['call']} (line {stopped['line']})"
            console.line(f"stopped at {shown}: no recorded call answers {json.dumps(stopped['args'])}")
        else:
            console.line(_compared(answer))
            if answer.get("error"):
                for line in console.style.plain_lines(error_text(without_escapes(answer["error"]))):
                    console.line(line)
            elif answer.get("status", "completed") == "completed":
                console.line(json.dumps(answer["output"], ensure_ascii=False))
            else:
                console.line(f"the run is {answer['status']}")
    return OK if answer["matches"] or ("changed" in answer and not diverged and not stopped) else DIFFERS


def _compared(answer: dict[str, Any]) -> str:
    calls = counted(len(answer["calls"]), "call")
    if answer["matches"]:
        return f"matches: {calls}"
    others = len(answer["changed"])
    return f"differs: it would have ended {answer['status']}, with {calls}, {others or 'none'} of them other than recorded"


def _show_verified(answer: dict[str, Any], console: Console | None) -> int:
    values = "values ok" if answer["values_ok"] else f"values differ in entries {answer['wrong_values']}"
    root = "root ok" if answer["root_ok"] else "root differs"
    replayed = "replay matches" if answer["matches"] else "replay differs"
    if console:
        console.line(f"{values}, {root}, {replayed if answer['replayable'] else 'not replayable'}")
        if answer.get("missing"):
            console.line(f"missing entries: {', '.join(map(str, answer['missing']))}")
        if answer["diverged_at"]:
            console.line(divergence_text(answer["diverged_at"]))
    sound = answer["values_ok"] and answer["root_ok"]
    return OK if sound and (answer["matches"] or not answer["replayable"]) else DIFFERS


def _show_test(report: dict[str, Any], console: Console | None) -> int:
    if console:
        for log in report["logs"]:
            console.line(console.style.dim(f"{log['level']} ") + " ".join(map(_plain, log["values"])))
        for missing in report["missing"]:
            shown = f"{missing['tool']}({json.dumps(missing['args'])})"
            console.note(f"line {missing['line']}: nothing answers {shown}")
        console.line(
            f"{report['status']}, {counted(len(report['calls']), 'call')}, "
            f"{counted(len(report['unused']), 'answer')} unused"
        )
        for waiting in report["waiting_for"]:
            console.line(
                f"  waits for {waiting['kind']} {waiting.get('tool') or waiting.get('name') or ''}".rstrip()
            )
        if report["error"]:
            console.error(f"{report['error']['name']}: {report['error']['message']}")
        elif report["status"] == "completed":
            console.line(json.dumps(report["output"], ensure_ascii=False))
    return OK if report["status"] == "completed" else DIFFERS


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
