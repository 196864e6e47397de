"""The verbs `run` and `runs`."""

import argparse
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from rewind._cli_base import (
    DEFAULT_NAMESPACE,
    RUN_HELP,
    Console,
    Usage,
    group,
    json_argument,
    labels_argument,
    read_file,
    remote_verb,
    seconds,
)
from rewind._cli_differences import fork_lines
from rewind._client import Rewind
from rewind._errors import ApiError, NotFound
from rewind._style import clip, without_escapes
from rewind._types import Entry, Run
from rewind.journal_text import JournalText, compact, error_text, size_text, took_text

FIRST_WAIT_MS = 1_000
"""The start itself waits only so long, so that the run's id is known while it is waited for."""
OUTPUT_LINE_CHARS = 100
_NO_TOOLS = '"rewind:tools" has no export'
_SIGNS = {
    "completed": "green",
    "failed": "red",
    "aborted": "red",
    "quarantined": "red",
    "cancelled": "yellow",
}

Verbs = argparse._SubParsersAction


def register(verbs: "Verbs[argparse.ArgumentParser]") -> None:
    run = remote_verb(verbs, "run", run_file, help="run a script and print its output")
    run.add_argument("file", metavar="FILE", help="the script (- for stdin)")
    run.add_argument("--toolset", help="the tools that the script may call: NAME or NAME@sha256:…")
    run.add_argument("--input", metavar="JSON", help="argument of main: JSON, @file, or - for stdin")
    run.add_argument("--wait", type=seconds, default=30.0, metavar="TIME", help="how long to wait (30s)")
    run.add_argument("--until", choices=("ended", "blocked"), default="ended", help="what to wait for")
    run.add_argument("--ttl", help="cancel the run after this time (30d)")
    run.add_argument("--label", action="append", metavar="KEY=VALUE", help="may be repeated")
    run.add_argument("--idempotency-key", metavar="KEY", help="the same key again gives the same run")

    runs = group(verbs, "runs", help="look at runs and talk to them")
    listing = remote_verb(runs, "list", list_runs, help="list runs, newest first")
    listing.add_argument("--status", choices=("active", *_SIGNS), help="only those that stand so")
    listing.add_argument("--label", action="append", metavar="KEY=VALUE", help="only those that have it")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="so many at most (20)")
    get = remote_verb(runs, "get", get_run, help="show one run")
    get.add_argument("run", metavar="RUN", help=RUN_HELP)
    get.add_argument(
        "--wait", type=seconds, default=0.0, metavar="TIME", help="how long to wait (not at all)"
    )
    get.add_argument("--until", choices=("ended", "blocked"), default="ended", help="what to wait for")
    signal = remote_verb(runs, "signal", signal_run, help="send a signal to a run")
    signal.add_argument("run", metavar="RUN", help=RUN_HELP)
    signal.add_argument("name", metavar="NAME", help="of the signal, as the script waits for it")
    signal.add_argument(
        "payload", metavar="JSON", nargs="?", default="null", help="JSON, @file, or - for stdin"
    )
    signal.add_argument("--by", help="who sends it, as the script and the journal will see it")
    signal.add_argument("--id", help="a repeat with the same id is taken once")
    cancel = remote_verb(runs, "cancel", cancel_run, help="cancel a run")
    cancel.add_argument("run", metavar="RUN", help=RUN_HELP)
    cancel.add_argument("--reason", help="stands in the journal beside who asked")
    fork = remote_verb(runs, "fork", fork_run, help="go on from an ended run, reusing what it has done")
    fork.add_argument("run", metavar="RUN", help=RUN_HELP)
    fork.add_argument("--script", metavar="FILE", help="a corrected script (- for stdin); the run's own")
    fork.add_argument("--at", type=int, metavar="SEQ", help="make the call whose outcome stands there anew")
    fork.add_argument("--wait", type=seconds, default=30.0, metavar="TIME", help="how long to wait (30s)")
    fork.add_argument("--ttl", help="cancel the fork after this time (30d)")
    fork.add_argument("--label", action="append", metavar="KEY=VALUE", help="instead of the run's labels")
    fork.add_argument("--dry-run", action="store_true", help="only say what would be reused")
    output = remote_verb(runs, "output", print_output, help="print the whole output of a run as JSON")
    output.add_argument("run", metavar="RUN", help=RUN_HELP)
    for name, handler, text in (
        ("journal", print_journal, "print what happened in a run"),
        ("logs", print_logs, "print what a run logged"),
    ):
        verb = remote_verb(runs, name, handler, help=text)
        verb.add_argument("run", metavar="RUN", help=RUN_HELP)
        verb.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")


def run_file(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    if arguments.file == "-" and arguments.input == "-":
        raise Usage("only one of FILE and --input can be read from stdin")
    value = None if arguments.input is None else json_argument(arguments.input, "--input")
    options: dict[str, Any] = {}
    if arguments.idempotency_key:
        options["idempotency_key"] = arguments.idempotency_key
    run = client.runs.start(
        script=read_file(arguments.file),
        toolset=arguments.toolset,
        input=value,
        wait=min(FIRST_WAIT_MS, round(arguments.wait * 1000)),
        until=arguments.until,
        ttl=arguments.ttl,
        labels=labels_argument(arguments.label) or None,
        **options,
    )
    left = arguments.wait - FIRST_WAIT_MS / 1000
    if run.status == "active" and left > 0:
        try:
            run = client.runs.wait(run.id, timeout_s=left, until=arguments.until)
        except KeyboardInterrupt:
            console.note(f"\nThe run goes on: {again(run, 'get')} --wait 30s")
            raise
    code = _show(run, console)
    if arguments.toolset is None and run.error and _NO_TOOLS in str(run.error.get("message")):
        console.note("The run has no tools: name some with --toolset. `rewind toolsets list` shows them.")
    if run.status == "active" and run.toolset and not console.as_json:
        _note_host_tools(run, client, console)
    return code


def _note_host_tools(run: Run, client: Rewind, console: Console) -> None:
    """Say who makes the calls that the run waits for, where that is the caller's own process."""
    waiting = [
        item["tool"] for item in run.waiting_for if item["kind"] == "tool_call" and not item.get("deferred")
    ]
    if not waiting:
        return
    try:
        toolset = client.toolsets.get(str(run.toolset))
    except ApiError:  # a hint only: the run was started, and is told of above
        return
    hosts = {tool["name"] for tool in toolset.tools if tool.get("kind") == "host"}
    mine = [tool for tool in waiting if tool in hosts]
    if mine:
        console.note(
            f"{mine[0]} is a tool of your own process: is one running that serves it, with "
            f"`client.worker(toolset={toolset.name!r}, tools=[…]).run()`?"
        )


def list_runs(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    if not 1 <= arguments.limit <= 10_000:
        raise Usage("--limit takes 1 to 10000")
    pager = client.runs.list(
        status=arguments.status, labels=labels_argument(arguments.label), limit=min(arguments.limit + 1, 200)
    )
    try:
        found = list(islice(pager, arguments.limit + 1))
    except NotFound as error:  # a namespace is made by its first run
        if arguments.json:
            raise
        console.note(f"no runs: {error.detail}")
        return 0
    more = len(found) > arguments.limit
    found = found[: arguments.limit]
    if arguments.json:
        console.json({"data": [run.raw for run in found]})
    elif not found:
        console.note("no runs" if not arguments.status else f"no {arguments.status} runs")
    else:
        rows = [(run.id, run.status, age_text(run.started_at), summary(run)) for run in found]
        console.table(("RUN", "STATUS", "STARTED", ""), rows)
        if more:
            console.note(f"These are the newest {arguments.limit}: --limit shows more of them.")
    return 0


def get_run(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    if arguments.wait:
        run = client.runs.wait(arguments.run, timeout_s=arguments.wait, until=arguments.until)
    else:
        run = client.runs.get(arguments.run)
    _show(run, console)
    return 0


def signal_run(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    payload = json_argument(arguments.payload, "the payload")
    receipt = client.runs.signal(arguments.run, arguments.name, payload, id=arguments.id, by=arguments.by)
    if arguments.json:
        console.json(receipt.raw)
    else:
        console.line("already received" if receipt.duplicate else "sent")
    return 0


def cancel_run(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    run = client.runs.cancel(arguments.run, reason=arguments.reason)
    if arguments.json:
        console.json(run.raw)
    else:
        console.line(
            f"{run.status}" if run.ended else "cancelling: the script gets one activation to clean up"
        )
    return 0


def fork_run(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    options: dict[str, Any] = {
        "script": None if arguments.script is None else read_file(arguments.script),
        "at": arguments.at,
        "ttl": arguments.ttl,
        "labels": labels_argument(arguments.label) or None,
    }
    if arguments.dry_run:
        plan = client.runs.fork(arguments.run, dry_run=True, **options)
        if arguments.json:
            console.json(plan.raw)
        else:
            for line in fork_lines(plan.raw, console.style):
                console.line(line)
        return 0
    run = client.runs.fork(arguments.run, wait=min(FIRST_WAIT_MS, round(arguments.wait * 1000)), **options)
    left = arguments.wait - FIRST_WAIT_MS / 1000
    if run.status == "active" and left > 0:
        run = client.runs.wait(run.id, timeout_s=left)
    if run.fork is not None and not arguments.json:
        for line in fork_lines(run.fork, console.style):
            console.line(line)
    return _show(run, console)


def print_output(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    console.line(client.runs.output_text(arguments.run))
    return 0


def print_journal(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    text = JournalText(console.style)
    for number, entry in enumerate(_entries(arguments, client)):
        if arguments.json:
            console.json(entry)
            continue
        if number == 0:
            console.line(text.header())
        console.line(text.line(entry))
    return 0


def print_logs(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    text = JournalText(console.style)
    for entry in _entries(arguments, client):
        line = text.line(entry)  # asked of every entry: times are told from the first one
        if entry["type"] == "log":
            if arguments.json:
                console.json(entry)
            else:
                console.line(line)
    return 0


def _entries(arguments: argparse.Namespace, client: Rewind) -> Iterable[Entry]:
    """What is recorded, or, to follow it, that and all that comes until the run has ended."""
    if arguments.follow:
        return client.runs.events(arguments.run)
    return client.runs.journal(arguments.run)


def _show(run: Run, console: Console) -> int:
    """A run for a person: how it stands, what it waits for, its error or output. Exit code by its status."""
    code = 0 if run.status in {"active", "completed"} else 1
    if console.as_json:
        console.json(run.raw)
        return code
    for line in describe(run, console):
        console.line(line)
    return code


def describe(run: Run, console: Console) -> list[str]:
    style = console.style
    paint = getattr(style, _SIGNS.get(run.status, "bold"))
    took = f" after {_took(run)}" if run.ended_at else ""
    lines = [f"run {run.id}  {paint(run.status)}{took}"]
    if run.status == "active":
        doing = [f"waits for {waiting_text(item)}" for item in run.waiting_for] or ["running"]
        more = run.waiting_count - len(run.waiting_for)
        lines.extend(
            f"  {style.plain(line)}" for line in [*doing, *([f"and {more} more"] if more > 0 else [])]
        )
        lines.extend(style.dim(f"  {line}") for line in _next_steps(run))
    if run.error:
        lines.extend(f"  {line}" for line in style.plain_lines(error_text(without_escapes(run.error))))
    if run.reason:
        lines.append(f"  reason: {style.plain(str(run.reason))}")
    if run.status == "quarantined":
        lines.append(
            style.dim("  it stands still until an operator releases it, which tries again, or abandons it")
        )
    if run.status == "completed":
        lines.extend(_output_lines(run, console))
    return lines


def again(run: Run, verb: str) -> str:
    """A command about this run that works as it is typed, whatever namespace it is in."""
    return f"rewind runs {verb} {run.id}{_in_namespace(run)}"


def _in_namespace(run: Run) -> str:
    named = run.namespace or DEFAULT_NAMESPACE
    return "" if named == DEFAULT_NAMESPACE else f" --namespace {shlex.quote(named)}"


def _next_steps(run: Run) -> list[str]:
    """What the caller can do about a run that goes on: decide, send what it waits for, look on."""
    kinds: dict[str, dict[str, Any]] = {}
    for item in run.waiting_for:
        kinds.setdefault(str(item.get("kind")), item)
    steps = []
    if "approval" in kinds:
        steps.append((f"rewind approvals approve {run.id} {kinds['approval'].get('call')}", "or `deny`"))
    if "signal" in kinds:
        name = shlex.quote(str(kinds["signal"].get("name")))
        steps.append((f"rewind runs signal {run.id} {name} JSON", "sends it"))
    steps.append((f"rewind runs journal {run.id} -f", "follows it"))
    return [f"{command}{_in_namespace(run)}   {what}" for command, what in steps]


def waiting_text(item: dict[str, Any]) -> str:
    """One thing that a run waits for: `signal "approval" (line 12, until …)`."""
    kind = item.get("kind")
    name = item.get("name")
    what = {
        "signal": f"signal {compact(name)}",
        "tool_call": f"tool {item.get('tool')} #{item.get('call')}{' (deferred)' if item.get('deferred') else ''}",
        "approval": f"approval of {item.get('tool')} #{item.get('call')}",
        "timer": "a timer",
        "child_run": f"run {item.get('run')}",
    }.get(str(kind), str(kind))
    where = [f"line {item['line']}"] if item.get("line") else []
    until = [f"until {item['until']}"] if item.get("until") else []
    notes = ", ".join(where + until)
    return f"{what} ({notes})" if notes else what


def summary(run: Run) -> str:
    """What is worth knowing of a run in a list."""
    if run.error:
        return clip(f"{run.error.get('name')}: {run.error.get('message')}", 80)
    if run.status == "active" and run.waiting_for:
        return clip(f"waits for {waiting_text(run.waiting_for[0])}", 80)
    if run.status == "completed" and not run.output_truncated:
        return clip(compact(run.output), 60)
    return run.reason or ""


def age_text(iso: str | None, now: datetime | None = None) -> str:
    if iso is None:
        return ""
    passed = (now or datetime.now(UTC)) - datetime.fromisoformat(iso.replace("Z", "+00:00"))
    whole = max(0, int(passed.total_seconds()))
    return "just now" if whole < 1 else f"{took_text(whole * 1000).split(' ', maxsplit=1)[0]} ago"


def _took(run: Run) -> str:
    began = datetime.fromisoformat(str(run.started_at).replace("Z", "+00:00"))
    ended = datetime.fromisoformat(str(run.ended_at).replace("Z", "+00:00"))
    return took_text(round((ended - began).total_seconds() * 1000))


def _output_lines(run: Run, console: Console) -> list[str]:
    if run.output_truncated:
        hint = again(run, "output")
        return [console.style.dim(f"  the output has {size_text(run.output_bytes or 0)}: {hint}")]
    one_line = compact(run.output)
    if len(one_line) <= OUTPUT_LINE_CHARS:
        return [console.style.plain(one_line)]
    return console.style.plain_lines(pretty(run.output))


def pretty(value: Any, indent: int = 0) -> str:
    """JSON on several lines, with short lists and objects kept on one."""
    one_line = compact(value)
    if len(one_line) + indent <= OUTPUT_LINE_CHARS or not isinstance(value, dict | list) or not value:
        return one_line
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{inner}{compact(key)}: {pretty(item, indent + 2)}" for key, item in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    return (
        "[\n" + ",\n".join(f"{inner}{pretty(item, indent + 2)}" for item in value) + "\n" + " " * indent + "]"
    )
