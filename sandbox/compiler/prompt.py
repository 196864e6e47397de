"""A toolset as a model's prompt: one line a tool, within a budget of tokens.

What does not fit is shortened for all tools alike before any is left out: first nested types and descriptions,
then all but the names of arguments, then all but the tools' names; the last line says how to see the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sandbox.compiler.declarations import START, WORKFLOWS
from sandbox.compiler.tokens import estimate_tokens
from sandbox.compiler.ts_text import key, line
from sandbox.compiler.ts_types import (
    Alias,
    ArrayOf,
    Both,
    Literal,
    Object,
    Tuple,
    Type,
    Union,
    Word,
    aliases_in,
    size_of,
    substituted,
)
from sandbox.compiler.typed_tools import TypedSchema, TypedTool

FULL_SENTENCE_CHARS, SHORT_SENTENCE_CHARS = 160, 80
SHORT_MEMBERS_MAX = 6
"""Members of a union in a shortened type."""
INLINE_SIZE_MAX = 12
"""A type that several places refer to is written out in each when it has at most this many parts."""
ELIDED = Word("{…}")
BUDGET_MIN = 100
_HTTP = (
    "http.request({ method?, url, headers?, query?, json?, text?, base64?, timeout? }): { status: number; ok: boolean; "
    "headers: Record<string, string>; json: any; text: string; base64?: string } // also http.get, post, put, patch, "
    "delete(url, init?); 4xx and 5xx are results\n"
)


def render_prompt(tools: Sequence[TypedTool], *, http: bool, budget: int | None) -> str:
    """The tools within `budget` tokens of `tokens.TOKENIZER`; None: all of them in full.

    What a workflow's `start` takes is what the workflow takes: the head says so once.

    Limits: `budget` is at least BUDGET_MIN, which is what the frame takes.
    """
    tools = [tool for tool in tools if not (_is_workflow(tool) and tool.name.endswith(START))]
    full = [_full(tool) for tool in tools]
    whole = "".join([_head(tools, http=http), _HTTP if http else "", *full])
    if budget is None or estimate_tokens(whole) <= budget:
        return whole
    head = _framed(tools, http=http, budget=budget)
    room = budget - estimate_tokens(head + _closing(len(tools), len(tools), len(tools)))
    levels = [
        [_listed(tool) for tool in tools],
        [_named(tool) for tool in tools],
        [_short(tool) for tool in tools],
        full,
    ]
    costs = [[estimate_tokens(text) for text in texts] for texts in levels]
    frames = sum(estimate_tokens(f"{group}: \n") for group in {tool.group for tool in tools})
    fitting = [level for level in range(4) if sum(costs[level]) + (0 if level else frames) <= room]
    if not fitting:
        return head + _counted(tools, room) + _closing(0, len(tools), len(tools))
    base = fitting[-1]
    left = room - sum(costs[base]) - (0 if base else frames)
    chosen = []
    for before, after in zip(costs[base], costs[min(base + 1, 3)], strict=True):
        better = base < 3 and after - before <= left
        left -= (after - before) * better
        chosen.append(base + better)
    lines = [levels[level][index] for index, level in enumerate(chosen) if level > 0]
    names = [tool for tool, level in zip(tools, chosen, strict=True) if level == 0]
    return head + "".join(lines) + _listing(names) + _closing(chosen.count(3), len(tools), 0)


def compact(tool: TypedTool) -> str:
    """One tool as in a prompt without a budget, with the types that it refers to."""
    return _full(tool).rstrip("\n")


def _head(tools: Sequence[TypedTool], *, http: bool, names_max: int = 8) -> str:
    plain, workflows = _by_module(tools)
    names = ["http"] * http + plain
    call = "all calls are async: await tool(args, { timeout?, signal? })"
    lines = []
    if names or not workflows:
        lines.append(f'// import {{ {_first(names, names_max)} }} from "rewind:tools"; {call}\n')
    if workflows:
        lines.append(
            f'// import {{ {_first(workflows, names_max)} }} from "rewind:workflows"; each call is a run of its own; '
            "name.start(input) does not wait for it\n"
        )
    return "".join(lines)


def _by_module(tools: Sequence[TypedTool]) -> tuple[list[str], list[str]]:
    """What is imported from `rewind:tools`, and what from `rewind:workflows`."""
    plain = dict.fromkeys(tool.group or tool.name for tool in tools if not _is_workflow(tool))
    workflows = dict.fromkeys(tool.member.partition(".")[0] for tool in tools if _is_workflow(tool))
    return list(plain), list(workflows)


def _first(names: Sequence[str], count: int) -> str:
    return ", ".join(names[:count]) + (", …" if len(names) > count else "")


def _is_workflow(tool: TypedTool) -> bool:
    return tool.name.startswith(WORKFLOWS)


def _framed(tools: Sequence[TypedTool], *, http: bool, budget: int) -> str:
    """What stands above the tools, in at most a third of the budget where that can be."""
    texts = [_head(tools, http=http), _HTTP if http else ""]
    if estimate_tokens("".join(texts)) * 3 > budget:
        texts[1] = "http: request, get, post, put, patch, delete\n" if http else ""
    if estimate_tokens("".join(texts)) * 3 > budget:
        plain, workflows = _by_module(tools)
        modules = ["rewind:tools"] * bool(plain or http or not workflows) + ["rewind:workflows"] * bool(
            workflows
        )
        texts[0] = "".join(f'// import {{ … }} from "{module}"\n' for module in modules)
    return "".join(texts)


def _counted(tools: Sequence[TypedTool], room: int) -> str:
    """When not all names fit: the groups, with their tools' names as long as there is room, else their number."""
    groups: dict[str, list[TypedTool]] = {}
    for tool in tools:
        groups.setdefault(tool.group or tool.name, []).append(tool)
    lines = []
    for group, members in groups.items():
        lines.append(f"{group}: {len(members)} tool{'s' if len(members) > 1 else ''}\n")
        room -= estimate_tokens(lines[-1])
        if room < 0:
            return "".join(lines[:-1])
    for index, members in enumerate(groups.values()):
        named = _listing(members)
        room -= estimate_tokens(named) - estimate_tokens(lines[index])
        if room < 0:
            break
        lines[index] = named
    return "".join(lines)


def _closing(full: int, count: int, left_out: int) -> str:
    shown = " Not all are listed." if left_out else ""
    return (
        f"// {full} of {count} tools are shown in full.{shown} search_tools finds tools by what they do, "
        "describe_tool shows all of one.\n"
    )


def _listing(tools: Sequence[TypedTool]) -> str:
    groups: dict[str | None, list[str]] = {}
    for tool in tools:
        groups.setdefault(tool.group, []).append(tool.member if tool.group else tool.name)
    return "".join(f"{f'{group}: ' if group else ''}{', '.join(names)}\n" for group, names in groups.items())


def _listed(tool: TypedTool) -> str:
    return f"{tool.member}, "


def _named(tool: TypedTool) -> str:
    fields = _fields(tool.args.type, tool.args.aliases)
    return f"{_call(tool)}({'{ ' + ', '.join(fields) + ' }' if fields else ''})\n"


def _short(tool: TypedTool) -> str:
    args = line(shortened(tool.args.type, tool.args.aliases))
    result = "any" if tool.result is None else line(shortened(tool.result.type, tool.result.aliases))
    return f"{_signature(tool, args, result)}{_remark(tool, SHORT_SENTENCE_CHARS)}\n"


def _full(tool: TypedTool) -> str:
    args, named = _written_out(tool.args)
    result = "any"
    if tool.result is not None:
        result, more = _written_out(tool.result)
        named += more
    signature = f"{_signature(tool, args, result)}{_remark(tool, FULL_SENTENCE_CHARS)}\n"
    return "".join(f"type {name} = {text};\n" for name, text in named) + signature


def _signature(tool: TypedTool, args: str, result: str) -> str:
    given = "" if args == "Record<string, never>" else f"{'args?: ' if tool.optional else ''}{args}"
    return f"{_call(tool)}({given}): {result}"


def _call(tool: TypedTool) -> str:
    if tool.group is None:
        return tool.name
    if _is_workflow(tool):
        return tool.member
    name = key(tool.member)
    return f"{tool.group}[{name}]" if name.startswith('"') else f"{tool.group}.{name}"


def _remark(tool: TypedTool, chars_max: int) -> str:
    marks = "[waits for approval] " if tool.gated else ""
    text = marks + _sentence(tool.summary, chars_max)
    return f" // {text.strip()}" if text.strip() else ""


def _sentence(text: str, chars_max: int) -> str:
    """The first sentence, cut at a word."""
    end = next((at for at in range(20, len(text)) if text[at - 1] in ".!?" and text[at] == " "), len(text))
    if end <= chars_max:
        return text[:end]
    return text[:chars_max].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def _written_out(schema: TypedSchema) -> tuple[str, list[tuple[str, str]]]:
    """The type with small and single-use aliases in place, and the others by name, each once."""
    uses: dict[str, int] = {}
    for body in (schema.type, *schema.aliases.values()):
        for name in aliases_in(body):
            uses[name] = uses.get(name, 0) + 1
    circular = _circular(schema.aliases) | {schema.name}
    table: dict[str, Type] = {}
    for name in reversed(list(schema.aliases)):
        body = substituted(schema.aliases[name], table)
        if name not in circular and (uses.get(name, 0) <= 1 or size_of(body) <= INLINE_SIZE_MAX):
            table[name] = body
    whole = _replaced(schema.type, table)
    named: dict[str, str] = {}
    waiting = [whole]
    while waiting:
        for name in aliases_in(waiting.pop(0)):
            target = schema.type if name == schema.name else schema.aliases.get(name)
            if name not in named and target is not None:
                written = _replaced(target, table)
                named[name] = line(written)
                waiting.append(written)
    return (schema.name if schema.name in named else line(whole)), list(named.items())


def _replaced(item: Type, table: Mapping[str, Type]) -> Type:
    """Substitute until nothing of the table is left: its entries may name each other, never in a circle."""
    found = item
    while any(name in table for name in aliases_in(found)):
        found = substituted(found, table)
    return found


def _circular(aliases: Mapping[str, Type]) -> set[str]:
    """Aliases that lead back to themselves."""
    leads = {name: set(aliases_in(body)) & aliases.keys() for name, body in aliases.items()}
    found = set()
    for name in aliases:
        seen: set[str] = set()
        waiting = list(leads[name])
        while waiting:
            step = waiting.pop()
            if step not in seen:
                seen.add(step)
                waiting += leads[step]
        if name in seen:
            found.add(name)
    return found


def shortened(item: Type, aliases: Mapping[str, Type], depth: int = 0) -> Type:
    """The type with what is nested in its properties elided."""
    match item:
        case Alias(name):
            return shortened(aliases[name], aliases, depth + 1) if name in aliases and depth < 2 else ELIDED
        case Object(properties, indexes):
            if depth > 0 and properties:
                return ELIDED
            return Object(
                tuple(replace(part, type=shortened(part.type, aliases, depth + 1)) for part in properties),
                tuple(replace(index, type=shortened(index.type, aliases, depth + 1)) for index in indexes),
            )
        case ArrayOf(inner):
            return ArrayOf(shortened(inner, aliases, depth + 1))
        case Tuple(items, required, rest):
            following = None if rest is None else shortened(rest, aliases, depth + 1)
            return Tuple(tuple(shortened(part, aliases, depth + 1) for part in items), required, following)
        case Union(members):
            return _fewer([shortened(member, aliases, depth) for member in members])
        case Both():
            return ELIDED
        case _:
            return item


def _fewer(members: Sequence[Type]) -> Type:
    kept = tuple(dict.fromkeys(members))
    if len(kept) == 1:
        return kept[0]
    if len(kept) <= SHORT_MEMBERS_MAX:
        return Union(kept)
    if all(isinstance(member, Literal) for member in kept):
        return Union((*kept[: SHORT_MEMBERS_MAX - 2], Word("…")))
    return Union((*kept[: SHORT_MEMBERS_MAX - 1], Word("…")))


def _fields(item: Type, aliases: Mapping[str, Type]) -> list[str]:
    """Names of arguments, those that may be left out with `?`."""
    if isinstance(item, Alias) and item.name in aliases:
        return _fields(aliases[item.name], aliases)
    if isinstance(item, Object):
        names = [f"{key(part.name)}{'?' if part.optional else ''}" for part in item.properties]
        return names + (["…"] if item.indexes else [])
    if isinstance(item, Union):
        variants = [_fields(member, aliases) for member in item.members]
        return variants[0] + (["…"] if len(variants) > 1 else [])
    return ["…"]
