"""The verbs `toolsets` and `tokens`."""

import argparse
from typing import Any

from rewind._cli_base import Console, Usage, group, json_argument, remote_verb
from rewind._client import Rewind
from rewind._types import Toolset, given
from rewind.journal_text import compact

TOOLSET_HELP = "of a toolset: NAME, or NAME@sha256:… for a version of it"


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    toolsets = group(verbs, "toolsets", help="register tools and look at them")
    put = remote_verb(toolsets, "register", register_toolset, help="pin tools under a name")
    put.add_argument("name", metavar="NAME", help="what scripts and runs call it")
    put.add_argument(
        "file", metavar="FILE", help="JSON with `tools`, `mcp`, `http`, `workflows`; - for stdin"
    )
    refresh = remote_verb(toolsets, "refresh", refresh_toolset, help="compare with what the servers have now")
    refresh.add_argument("name", metavar="NAME", help=TOOLSET_HELP)
    refresh.add_argument(
        "--accept",
        nargs="*",
        metavar="TOOL",
        help="pin the changes, or those of these tools; else only shown",
    )
    remote_verb(toolsets, "list", list_toolsets, help="list the toolsets")
    get = remote_verb(toolsets, "get", get_toolset, help="show the tools of a toolset")
    get.add_argument("name", metavar="NAME", help=TOOLSET_HELP)
    declarations = remote_verb(
        toolsets, "declarations", print_declarations, help="print a toolset as TypeScript"
    )
    declarations.add_argument("name", metavar="NAME", help=TOOLSET_HELP)
    declarations.add_argument(
        "--format",
        choices=("dts", "prompt"),
        default="dts",
        help="dts: what scripts are checked against (default); prompt: a line a tool",
    )
    declarations.add_argument("--tools", metavar="NAME,…", help="only these tools or groups")
    declarations.add_argument("--budget", type=int, metavar="TOKENS", help="of a prompt")
    search = remote_verb(toolsets, "search", search_tools, help="find tools by a few words")
    search.add_argument("name", metavar="NAME", help=TOOLSET_HELP)
    search.add_argument("words", metavar="WORD", nargs="+", help="what the tool is to do")
    search.add_argument("--limit", type=int, help="tools to show (10)")

    tokens = group(verbs, "tokens", help="make namespace tokens for agents, and revoke them")
    remote_verb(tokens, "list", list_tokens, help="list the tokens that work, newest first")
    delete = remote_verb(tokens, "delete", delete_token, help="revoke a token")
    delete.add_argument("token", metavar="ID", help="the token's id, not the token itself")
    create = remote_verb(tokens, "create", create_token, help="make a token of one namespace")
    create.add_argument(
        "--scope", action="append", metavar="SCOPE", help="such as runs:write; may be repeated"
    )
    create.add_argument("--ttl", help="how long it lives (24h); never: until it is deleted")
    create.add_argument("--name", help="what you call it")
    narrow = create.add_argument_group(
        "narrowing", "without these it reaches all of its namespace; what it may do is still its scopes'"
    )
    narrow.add_argument("--toolset", help="start and test scripts with this toolset only")
    narrow.add_argument("--workflow", action="append", help="start this workflow only; may be repeated")
    narrow.add_argument("--run", help="see this run only")
    narrow.add_argument("--signal", action="append", help="send this signal only; may be repeated")


def register_toolset(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    body = json_argument("-" if arguments.file == "-" else f"@{arguments.file}", "FILE")
    if not isinstance(body, dict):
        raise Usage(f"{arguments.file} holds no object with `tools`, `mcp`, `http` or `workflows`")
    if body.pop("name", arguments.name) != arguments.name:
        raise Usage(f"{arguments.file} is about a toolset of another name than {arguments.name}")
    unknown = sorted(set(body) - {"tools", "mcp", "http", "workflows", "secrets"})
    if unknown:
        raise Usage(f"{arguments.file}: there is no field {unknown[0]!r} in a toolset")
    _show_toolset(client.toolsets.register(arguments.name, **body), arguments, console)
    return 0


def refresh_toolset(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    accept = arguments.accept or arguments.accept is not None
    found = client.toolsets.refresh(arguments.name, accept=accept)
    if arguments.json:
        console.json(found)
        return 0
    rows = [(str(change.get("tool", "")), str(change.get("change", ""))) for change in found["changes"]]
    if rows:
        console.table(("TOOL", "CHANGE"), rows)
    else:
        console.note("nothing has changed")
    console.line(f"{arguments.name}@{found['digest']}")
    return 0


def list_toolsets(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    found = list(client.toolsets.list())
    if arguments.json:
        console.json({"data": [toolset.raw for toolset in found]})
    elif not found:
        console.note("no toolsets; `client.toolsets.register(name, tools=[...])` makes one")
    else:
        rows = [(t.name, str(len(t.tools)), t.digest) for t in found]
        console.table(("TOOLSET", "TOOLS", "DIGEST"), rows)
    return 0


def get_toolset(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    _show_toolset(client.toolsets.get(arguments.name), arguments, console)
    return 0


def _show_toolset(found: Toolset, arguments: argparse.Namespace, console: Console) -> None:
    if arguments.json:
        console.json(found.raw)
        return
    console.line(f"{found.name}@{found.digest}")
    rows = [(tool["name"], str(tool.get("kind", "")), _policy(tool)) for tool in found.tools]
    if rows:
        console.table(("TOOL", "KIND", ""), rows)
    for warning in found.warnings:
        console.note(f"warning: {warning}")


def print_declarations(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    """The text as it is, so that it can be redirected into `rewind-tools.d.ts`."""
    tools = None if arguments.tools is None else [tool.strip() for tool in arguments.tools.split(",")]
    text = client.toolsets.declarations(
        arguments.name, format=arguments.format, tools=tools, budget=arguments.budget
    )
    if arguments.json:
        console.json({"declarations": text})
    else:
        console.line(text.rstrip("\n"))
    return 0


def search_tools(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    found = client.toolsets.search(arguments.name, " ".join(arguments.words), limit=arguments.limit)
    if arguments.json:
        console.json(found.raw)
    elif not found.data:
        console.note("no tool fits these words")
    for tool in found.data if not arguments.json else ():
        for line in console.style.plain_lines(tool.declaration):
            console.line(line)
    return 0


def list_tokens(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    found = list(client.tokens.list())
    if arguments.json:
        console.json({"data": [token.raw for token in found]})
    elif not found:
        console.note("no tokens; `rewind tokens create --namespace NAME` makes one")
    else:
        rows = [(t.id, t.prefix or "", t.namespace, t.expires_at or "never", t.name or "") for t in found]
        console.table(("TOKEN", "PREFIX", "NAMESPACE", "EXPIRES", "NAME"), rows)
    return 0


def delete_token(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    client.tokens.delete(arguments.token)
    if arguments.json:
        console.json({"id": arguments.token, "deleted": True})
    else:
        console.line("revoked: it works no more within a second")
    return 0


def create_token(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    narrow = given(
        toolset=arguments.toolset,
        workflows=arguments.workflow,
        run=arguments.run,
        signals=arguments.signal,
    )
    options: dict[str, Any] = given(scopes=arguments.scope, ttl=arguments.ttl, name=arguments.name)
    if narrow:
        options["narrow"] = narrow
    token = client.tokens.create(**options)
    if arguments.json:
        console.json(token.raw)
        return 0
    console.line(token.token or "")
    only = f", narrowed to {compact(token.narrow)}" if token.narrow else ""
    until = f"until {token.expires_at}" if token.expires_at else "until it is deleted"
    console.note(
        f"for namespace {token.namespace}, {until}, scopes: {' '.join(token.scopes)}{only}. It is shown only now."
    )
    return 0


def _policy(tool: dict[str, Any]) -> str:
    words = [word for word in ("approval", "idempotent", "disabled") if tool.get(word)]
    return ", ".join(words)
