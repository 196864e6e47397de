"""What TypeScript says about names: variables, imports, tools, properties; each with what was probably meant."""

import re

from sandbox.compiler.absent import ABSENT, MODULE_NAMES, MODULE_VALUES
from sandbox.compiler.context import Context, Told, either, listed
from sandbox.compiler.declarations import START
from sandbox.compiler.near import nearest
from sandbox.compiler.toolset import spoken

TYPE_CHARS_MAX = 300
_CALLED = re.compile(r"[\w$.]{1,80}")


def unknown_name(context: Context) -> Told | None:
    """A variable that nothing declares: not imported, not in a sandbox, or misspelled."""
    name = context.spelled.strip("\"'")
    if name in context.toolset.groups:
        return Told(f"`{name}` is not imported.", f'write `import {{ {name} }} from "rewind:tools"`')
    if name in MODULE_NAMES:
        return Told(f"`{name}` is not imported.", f'write `import {{ {name} }} from "rewind"`')
    if name in _workflows(context):
        return Told(f"`{name}` is not imported.", f'write `import {{ {name} }} from "rewind:workflows"`')
    tools = _tools_called(context, name)
    if tools:
        group = tools[0].partition(".")[0]
        return Told(
            f"There is no `{name}`; the tool is `{tools[0]}`.",
            f'write `import {{ {group} }} from "rewind:tools"` and call {context.toolset.usage(tools[0])}',
        )
    if name in ABSENT:
        return Told(f"`{name}` does not exist in a script.", _instead(context, name))
    near = nearest(name, [*context.toolset.groups, *MODULE_VALUES])
    if near and context.code != 2552:
        module = "rewind" if near[0] in MODULE_VALUES else "rewind:tools"
        return Told(f"There is no `{name}`.", f'did you mean `{near[0]}`, imported from "{module}"?')
    hint = None if context.code == 2552 else "declare it, or take it from `input`"
    return Told(f"There is no `{name}`.", hint)


def unknown_export(context: Context) -> Told | None:
    name = context.spelled
    text = str(context.raw["text"])
    if '"rewind:tools"' in text:
        return _unknown_group(context, name)
    if '"rewind:workflows"' in text:
        return _unknown_workflow(context, name)
    if '"rewind"' not in text:
        return None
    message = f'Module "rewind" has no `{name}`.'
    if name in {"gather", "all", "parallel"}:
        return Told(message, "for several calls at once write `await Promise.all([…])`")
    near = nearest(name, MODULE_NAMES)
    return Told(message, f"did you mean {either(near)}?" if near else f"it has {', '.join(MODULE_VALUES)}")


def _unknown_group(context: Context, name: str) -> Told:
    groups = context.toolset.groups
    message = f"This toolset has no `{name}`."
    if name in _workflows(context):
        told = f"`{name}` is a workflow of this toolset, not a tool."
        return Told(told, f'write `import {{ {name} }} from "rewind:workflows"`')
    if not groups:
        return Told(message, "there are no tools: name a `toolset` when you check or start the script")
    tools = _tools_called(context, name)
    if tools:
        group = tools[0].partition(".")[0]
        return Told(
            f"The tool `{name}` is in the group `{group}`.",
            f'write `import {{ {group} }} from "rewind:tools"` and call {context.toolset.usage(tools[0])}',
        )
    near = nearest(name, groups)
    if not near:
        like = nearest(name, [tool.rpartition(".")[2] for tool in context.toolset.tools])
        near = [tool for tool in context.toolset.tools if tool.rpartition(".")[2] in like]
    return Told(message, f"did you mean {either(near)}?" if near else f"it has {listed(list(groups))}")


def _unknown_workflow(context: Context, name: str) -> Told:
    known = _workflows(context)
    message = f"This toolset has no workflow `{name}`."
    if name in context.toolset.groups:
        told = f"`{name}` is a tool of this toolset, not a workflow."
        return Told(told, f'write `import {{ {name} }} from "rewind:tools"`')
    if not known:
        return Told(message, "a toolset names its `workflows` when it is registered; this one names none")
    near = nearest(name, known)
    return Told(message, f"did you mean {either(near)}?" if near else f"it has {listed(known)}")


def _workflows(context: Context) -> list[str]:
    return [spoken(name) for name in context.toolset.workflows if not name.endswith(START)]


def _tools_called(context: Context, name: str) -> list[str]:
    return [tool for tool in context.toolset.tools if tool.endswith(f".{name}")]


def _instead(context: Context, name: str) -> str:
    if "http" in context.toolset.groups and ABSENT[name] == ABSENT["fetch"]:
        return 'write `await http.get(url)`, with `import { http } from "rewind:tools"`'
    return ABSENT[name]


def unknown_module(context: Context) -> Told:
    return Told(f"There is no module {context.spelled}.", ABSENT["require"])


def unknown_member(context: Context) -> Told | None:
    """A property that a type does not have."""
    text = str(context.raw["text"])
    path = context.path
    head, _, name = path.rpartition(".")
    name = name or context.spelled
    if "on type 'Promise<" in text:
        return _not_awaited(context, head, name)
    if head == "globalThis":
        return absent_global(context)
    called = context.imports.called(path)
    if called is not None and head and "Tools'" in text:
        group, _, member = called.partition(".")
        if group in context.toolset.groups:
            return _unknown_tool(context, group, member)
    owner = re.search(r"on type '(.+)'\.", text)
    if owner is None:
        return None
    if owner[1].endswith("[]") or (context.toolset.shape(owner[1]) or "").endswith("[]"):
        at = head if _CALLED.fullmatch(head) else "list"
        hint = f"`{at}` is the list itself: take an element, `{at}[0]` or `for (const one of {at})`; `{at}.length` counts them"
        return Told(f"`{name}` does not exist on a list.", None if context.code == 2551 else hint)
    shown = owner[1] if len(owner[1]) <= TYPE_CHARS_MAX else owner[1][:TYPE_CHARS_MAX] + "…"
    return Told(f"There is no `{name}` in `{shown}`.")


def absent_global(context: Context) -> Told | None:
    head, _, name = context.path.rpartition(".")
    if head != "globalThis":
        return None
    hint = ABSENT.get(name, "a script's own variables are not on globalThis: write the name alone")
    return Told(f"`globalThis.{name}` does not exist in a script.", hint)


def not_callable(context: Context) -> Told | None:
    """A group that is called as if it were a tool."""
    called = context.imports.called(context.path) or ""
    members = context.toolset.groups.get(called)
    if members is None or called in context.toolset.tools:
        return None
    return Told(
        f"`{called}` is a group of tools, not a tool.",
        f"call one of its tools: {listed([f'{called}.{one}' for one in members])}",
    )


def _unknown_tool(context: Context, group: str, name: str) -> Told:
    members = context.toolset.groups[group]
    message = f"There is no tool `{group}.{name}`."
    near = nearest(name, members)
    if not near:
        return Told(message, f"`{group}` has {listed(members)}")
    meant = either([f"{group}.{one}" for one in near])
    return Told(message, f"did you mean {meant}? {context.toolset.usage(f'{group}.{near[0]}')}")


def _not_awaited(context: Context, head: str, name: str) -> Told:
    if not head or not _CALLED.fullmatch(head):
        return Told(
            f"`{name}` is read from a Promise, before its value is there.",
            f"await the call first, in parentheses: `(await …).{name}`",
        )
    message = f"`{head}` is a Promise: its value, and `{name}` on it, comes by `await`."
    for variable in (head, context.callee.rpartition(".")[0]):
        declared = context.declared(variable) if variable else None
        if declared is None:
            continue
        line, _ = context.source.place(declared.start())
        call = context.source.text[declared.end() :].split("(")[0].strip()
        if not _CALLED.fullmatch(call):
            return Told(message, f"await it where `{variable}` gets its value, on line {line}")
        if call.endswith((".map", ".flatMap")):
            return Told(message, f"on line {line} write `const {variable} = await Promise.all({call}(…))`")
        if variable == head:
            return Told(message, f"on line {line} write `const {variable} = await {call}(…)`")
    return Told(message, f"write `(await {head}).{name}`; for a list of Promises `await Promise.all(list)`")
