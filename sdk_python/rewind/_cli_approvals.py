"""The verb `approvals`: what waits for a person, and deciding it."""

import argparse
from itertools import islice
from typing import Any

from rewind._cli_base import RUN_HELP, Console, Usage, group, remote_verb
from rewind._client import Rewind
from rewind._errors import NotFound
from rewind._style import clip
from rewind._types import Approval, given
from rewind.journal_text import compact

_SHOWN_MAX = 60
LIMIT_MAX = 10_000


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    approvals = group(verbs, "approvals", help="decide about calls that wait for a person")
    listing = remote_verb(approvals, "list", list_approvals, help="list what waits, newest first")
    listing.add_argument(
        "--status",
        choices=("pending", "approved", "denied", "expired", "all"),
        default="pending",
        help="(pending)",
    )
    listing.set_defaults(all_namespaces=True)
    listing.add_argument("--run", metavar="RUN", help="only of this run")
    listing.add_argument("--limit", type=int, default=50, help="how many at most (50)")
    for name, decision, told in (
        ("approve", "approved", "let a call be made"),
        ("deny", "denied", "refuse a call: its script gets ApprovalDeniedError"),
    ):
        verb = remote_verb(approvals, name, decide, help=told)
        verb.set_defaults(decision=decision, all_namespaces=True)
        verb.add_argument("run", metavar="RUN", help=RUN_HELP)
        verb.add_argument("call", metavar="CALL", type=int, help="its number, as `approvals list` shows it")
        verb.add_argument("--reason", help="recorded with the decision")
        verb.add_argument("--by", help="who decided")


def list_approvals(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    options: dict[str, Any] = given(run=arguments.run)
    if arguments.status != "all":
        options["status"] = arguments.status
    if not 1 <= arguments.limit <= LIMIT_MAX:
        raise Usage(f"--limit takes 1 to {LIMIT_MAX}")
    try:
        pager = client.approvals.list(limit=min(arguments.limit, 200), **options)
        found: list[Approval] = list(islice(pager, arguments.limit))
    except NotFound as error:  # a namespace is made by its first run
        if arguments.json or arguments.run:
            raise
        console.note(f"no approvals: {error.detail}")
        return 0
    if arguments.json:
        console.json({"data": [approval.raw for approval in found]})
    elif not found:
        console.note("nothing waits for an approval" if arguments.status == "pending" else "no approvals")
    else:
        rows = [
            (a.run, str(a.call), a.namespace, a.tool, a.status, a.expires_at or "", _args(a)) for a in found
        ]
        console.table(("RUN", "CALL", "NAMESPACE", "TOOL", "STATUS", "EXPIRES", "ARGUMENTS"), rows)
    return 0


def decide(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    said: dict[str, Any] = given(reason=arguments.reason, by=arguments.by)
    approval = client.approvals.decide(arguments.run, arguments.call, arguments.decision, **said)
    if arguments.json:
        console.json(approval.raw)
    else:
        console.line(f"{approval.status}: {approval.tool} #{approval.call} of {approval.run}")
    return 0


def _args(approval: Approval) -> str:
    shown = approval.args_preview if approval.args_truncated else compact(approval.args)
    return clip(shown or "", _SHOWN_MAX)
