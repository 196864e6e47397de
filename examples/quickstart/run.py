"""The quick start: a script calls an MCP server and a Python function, sleeps, waits for a decision, and ends.

`python -m examples.quickstart.run` serves until Ctrl-C; with `--once` it stops what it started and exits; with
`--crash` the process that runs the script is killed on the way.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewind import AsyncRewind, NotFound, RewindError, Run
from rewind.journal_text import JournalText

from examples.quickstart.crash import Crash, worker_pid
from examples.quickstart.executions import DATA, executions
from examples.quickstart.server import NotStarted, Server, running_server, running_tracker, toolset_name
from examples.quickstart.tools import CLOSED, close_issue

SCRIPT = Path(__file__).with_name("stale_issues.ts")
INPUT = {"repo": "acme/site", "before": "2026-06-01"}
DECISION: dict[str, Any] = {"close": True, "by": "ada"}
LABELS = {"example": "quickstart"}
NAMESPACE = "default"
EARLIER_MAX = 1_000
WAIT_S = 60.0


async def main(server: Server, tracker: str, name: str, *, once: bool, crash: Crash | None) -> int:
    """Everything between "the server is up" and "the server is no longer needed"."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    async with AsyncRewind(api_key=server.api_key, base_url=server.url, namespace=NAMESPACE) as client:
        tools = [close_issue if crash is None else crash.tool]
        toolset = await client.toolsets.register(name, mcp=[{"name": "tracker", "url": tracker}], tools=tools)
        earlier = await earlier_runs(client)
        async with client.worker(toolset=name, tools=tools):
            show_start(server, tracker, [tool["name"] for tool in toolset.tools], earlier)
            work = asyncio.create_task(run_script(client, name, crash))
            await first_of(work, stop)
            if not work.done():
                work.cancel()
                return 130
            run = work.result()
            print_end(server, run, crash)
            if once or stop.is_set():
                return 0 if run.status == "completed" else 1
            print(f"\nServing the toolset {name} until Ctrl-C.", flush=True)
            return await serve(server, stop)


async def run_script(client: AsyncRewind, toolset: str, crash: Crash | None) -> Run:
    """Start the script, show what it does while it does it, and return the ended run."""
    run = await client.runs.start(
        script=SCRIPT.read_text(encoding="utf-8"), toolset=toolset, input=INPUT, labels=LABELS
    )
    say("run", f"{run.id} started; it calls the tools, then sleeps for 2 s")
    print("\nJournal, live: all that crosses the sandbox's walls, enough to rebuild the run after a crash")
    showing = asyncio.create_task(show_journal(client, run.id, crash))
    try:
        run = await settle(client, run.id)
        async with asyncio.timeout(WAIT_S):
            await showing
    finally:
        showing.cancel()
    return run


async def show_journal(client: AsyncRewind, run: str, crash: Crash | None) -> None:
    """Print each entry as it is recorded, until the run has ended; crash where it was asked for."""
    text = JournalText.of(sys.stdout)
    print(text.header(), flush=True)
    async for entry in client.runs.events(run):
        print(text.line(entry), flush=True)
        crashed = None if crash is None else await asyncio.to_thread(crash.after, entry)
        if crashed is not None:
            print(f"{'':24}✗ {crashed}", flush=True)


async def settle(client: AsyncRewind, started: str) -> Run:
    """Answer the script's question when it asks, and return the ended run."""
    run = await client.runs.wait(started, until="blocked", timeout_s=WAIT_S)
    if any(item["kind"] == "signal" for item in run.waiting_for):
        await client.runs.signal(run.id, "decision", DECISION, by=DECISION["by"])
        run = await client.runs.wait(run.id, timeout_s=WAIT_S)
    return run


async def serve(server: Server, stop: asyncio.Event) -> int:
    """Until a signal comes, or the server that was started here is gone."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await stop.wait()
        if server.process is not None and server.process.poll() is not None:
            print("The server has ended.", file=sys.stderr)
            return 1
    print("\nStopping.", flush=True)
    return 0


async def earlier_runs(client: AsyncRewind) -> list[Run]:
    """Runs of this example that the server remembers, newest first."""
    found: list[Run] = []
    with contextlib.suppress(NotFound):  # the namespace is made by its first run
        async for run in client.runs.list(labels=LABELS, limit=200):
            found.append(run)
            if len(found) == EARLIER_MAX:
                break
    return found


async def first_of(work: asyncio.Task[Run], stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


# -- what it prints


def show_start(server: Server, tracker: str, tools: list[str], earlier: list[Run]) -> None:
    where = "started here" if server.process is not None else "was running already"
    print("\nRewind quick start\n")
    say("server", f"{server.url} ({where}, data in {DATA})")
    served = [name for name in tools if name.startswith("tracker.")]
    say("tools", f"{', '.join(served)}: the MCP server {tracker} (started here)")
    say("", f"{', '.join(sorted(set(tools) - set(served)))}: a Python function of this process")
    say("script", f"{SCRIPT.relative_to(Path.cwd()) if SCRIPT.is_relative_to(Path.cwd()) else SCRIPT}")
    if earlier:
        count = f"{len(earlier)}{'+' if len(earlier) == EARLIER_MAX else ''} earlier run{'s' if len(earlier) > 1 else ''}"
        last = earlier[0]
        say("", f"{count}; the last one {last.id} {last.status}, started {ago(last)}")


def print_end(server: Server, run: Run, crash: Crash | None) -> None:
    print()
    took_s = seconds_between(run.started_at, run.ended_at)
    say("", f"{run.status} after {took_s:.1f} s, {run.usage.get('calls')} calls")
    counts = executions(run.id)
    again = sum(count > 1 for count in counts.values())
    say("", f"the tools executed {counts.total()} calls; {again or 'none'} of them more than once")
    if crash is not None and crash.killed is not None:
        say("", f"process {crash.killed} was killed; process {worker_pid()} went on from the journal")
    print("\nOutput" if run.error is None else "\nError")
    if run.error is not None:
        print(f"  {run.error['name']}: {run.error['message']} (line {run.error.get('line')})")
    else:
        print(f"  {json.dumps(run.output, ensure_ascii=False)}")
    print(f"  What was closed is in {CLOSED}.")
    rewind = command()
    print("\nNext")
    say("address", f"{server.url}   API reference {server.url}/docs")
    say("API key", server.api_key)
    say("look", f"{rewind} runs list   {rewind} runs journal {run.id}")
    say("write", "your own script and tools: README.md, “Your own script”")


def say(word: str, text: str) -> None:
    print(f"  {word:<9} {text}", flush=True)


def command() -> str:
    """How to call the command `rewind` from this shell."""
    beside = Path(sys.executable).with_name("rewind")
    found = shutil.which("rewind")
    if found is not None and Path(found).resolve() == beside.resolve():
        return "rewind"
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)


def moment(iso: str | None) -> datetime:
    return datetime.fromisoformat(iso.replace("Z", "+00:00")) if iso else datetime.now(UTC)


def seconds_between(start: str | None, end: str | None) -> float:
    return (moment(end) - moment(start)).total_seconds()


def ago(run: Run) -> str:
    passed = int((datetime.now(UTC) - moment(run.started_at)).total_seconds())
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if passed >= size:
            return f"{passed // size} {unit}{'s' if passed >= 2 * size else ''} ago"
    return f"{passed} s ago"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="stop and exit when the run has ended")
    parser.add_argument(
        "--crash", action="store_true", help="kill the process that runs the script on the way"
    )
    options = parser.parse_args()
    try:
        with running_tracker() as address, running_server() as started, toolset_name() as named:
            demo = Crash(close_issue) if options.crash else None
            code = asyncio.run(main(started, address, named, once=options.once, crash=demo))
    except (NotStarted, RewindError) as error:
        print(f"\nerror: {error}\nThe logs are in {DATA / 'logs'}.", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
