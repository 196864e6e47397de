"""`rewind admin …`: what an operator types. Each verb says in a table, or with `--json`, what there is or was done.

What a verb needs of the control plane is imported when it is used: the command loads in a moment.
"""

import argparse
import getpass
import os

from app.verbs import Handler, Parsers, add_group, add_verb, with_json, with_yes

LIMIT_DEFAULT, LIMIT_MAX = 100, 1_000


def register_admin(verbs: Parsers) -> None:
    _organizations(add_group(verbs, "organizations", "the customers"))
    _namespaces(add_group(verbs, "namespaces", "an organization's namespaces"))
    plans = add_group(verbs, "plan", "what organizations may use")
    plan = _acting(plans, "set", _verb("set_plan"), "Give an organization a plan.")
    plan.add_argument("organization", help=ORGANIZATION)
    plan.add_argument("plan")
    _quarantine(verbs)
    _workers(add_group(verbs, "workers", "the processes that execute scripts"))
    look = _acting(
        verbs, "impersonate", _verb("impersonate"), "Make a key that reads an organization for minutes."
    )
    look.add_argument("organization", help=ORGANIZATION)
    look.add_argument("--minutes", type=int, help="how long it lasts: 15 unless said otherwise, 60 at most")
    _with_reason(look)
    audit = _listing(
        verbs, "audit", _verb("audited"), "Show what operators did, or one organization's audit log."
    )
    audit.add_argument("--organization", help=ORGANIZATION)
    _acting(
        verbs,
        "rotate-data-key",
        _verb("rotate_data_key"),
        "Wrap the namespaces' keys with the first key of the file.",
    )
    _acting(
        verbs,
        "rotate-secret-key",
        _verb("rotate_secret_key"),
        "Seal customers' secrets anew with the first secret key.",
    )


ORGANIZATION = "its id, or its name where only one has it"


def _organizations(verbs: Parsers) -> None:
    create = _acting(verbs, "create", _verb("create"), "Create an organization and its first key.")
    create.add_argument("name")
    listed = _listing(verbs, "list", _verb("organizations"), "List organizations, newest first.")
    listed.add_argument("--search", metavar="TEXT", help="those whose names have this in them")
    listed.add_argument("--after", metavar="ID", help="go on after this one, as the list before says")
    shown = add_verb(verbs, "show", _verb("show"), "Show one organization: status, plan, people, usage.")
    shown.add_argument("organization", help=ORGANIZATION)
    with_json(shown)
    text = "Freeze an organization: its callers and members are refused and told why, its runs stay where they are."
    suspend = _acting(verbs, "suspend", _verb("suspend"), text)
    suspend.add_argument("organization", help=ORGANIZATION)
    _with_reason(suspend)
    with_yes(suspend)
    resume = _acting(verbs, "resume", _verb("resume"), "Let a suspended organization go on where it was.")
    resume.add_argument("organization", help=ORGANIZATION)


def _namespaces(verbs: Parsers) -> None:
    listed = _listing(verbs, "list", _verb("namespaces"), "List an organization's namespaces by name.")
    listed.add_argument("organization", help=ORGANIZATION)
    listed.add_argument("--after", metavar="NAME", help="go on after this one, as the list before says")
    text = "Freeze a namespace: its writes are refused, its runs stay where they are."
    suspend = _acting(verbs, "suspend", _verb("suspend_namespace"), text)
    resume = _acting(
        verbs, "resume", _verb("resume_namespace"), "Let a suspended namespace go on where it was."
    )
    for parser in (suspend, resume):
        parser.add_argument("organization", help=ORGANIZATION)
        parser.add_argument("namespace")
    _with_reason(suspend)
    with_yes(suspend)


def _quarantine(verbs: Parsers) -> None:
    """`quarantine RUN` puts one there, as the contract has it; `list`, `release` and `abandon` are no ids of runs."""
    text = "Put an active run into quarantine, for a drill; or list, release or abandon quarantined runs."
    parser = _acting(verbs, "quarantine", _verb("quarantine"), text)
    parser.usage = "%(prog)s RUN --reason TEXT | list | release RUN --reason TEXT | abandon RUN --reason TEXT"
    parser.add_argument(
        "what", metavar="RUN", help="the run to put there; or: list, release RUN, abandon RUN"
    )
    parser.add_argument("run", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--reason", metavar="TEXT", help="stands in the run and in the customer's audit log")
    parser.add_argument("--organization", help="list those of one organization: " + ORGANIZATION)
    parser.add_argument(
        "--limit", type=_limit, default=LIMIT_DEFAULT, metavar="N", help="list so many at most"
    )
    with_yes(parser)


def _workers(verbs: Parsers) -> None:
    with_json(
        add_verb(verbs, "list", _verb("workers"), "List workers: what each serves, since when, its load.")
    )
    drain = _acting(
        verbs, "drain", _verb("drain"), "Ask a worker to finish, to release its runs and to leave."
    )
    drain.add_argument("worker", help="its id, as `workers list` shows it")


def _acting(verbs: Parsers, name: str, handler: Handler, text: str) -> argparse.ArgumentParser:
    """A verb that changes something: whoever does it is named in the audit log."""
    parser = add_verb(verbs, name, handler, text)
    parser.add_argument(
        "--by",
        metavar="NAME",
        default=os.environ.get("REWIND_OPERATOR") or _login(),
        help="who you are, for the audit log (default: REWIND_OPERATOR, then your login)",
    )
    with_json(parser)
    return parser


def _listing(verbs: Parsers, name: str, handler: Handler, text: str) -> argparse.ArgumentParser:
    parser = add_verb(verbs, name, handler, text)
    parser.add_argument("--limit", type=_limit, default=LIMIT_DEFAULT, metavar="N", help="so many at most")
    with_json(parser)
    return parser


def _with_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reason", required=True, metavar="TEXT", help="told to the customer, and in its audit log"
    )


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= LIMIT_MAX:
        raise argparse.ArgumentTypeError(f"a number from 1 to {LIMIT_MAX}")
    return int(text)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid {os.getuid()}"


def _verb(name: str) -> Handler:
    def handle(arguments: argparse.Namespace) -> int:
        # Imported here: most verbs of the command need nothing of the control plane.
        from app.admin import doing

        handler: Handler = getattr(doing, name)
        return handler(arguments)

    return handle
