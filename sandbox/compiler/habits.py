"""What authors write out of habit from other languages and platforms, and what it is called here.

Each answers one mistake that models make; a habit that nobody has is not worth a line.
"""

import re
from dataclasses import replace

from sandbox.compiler.context import Context, Told, either, listed
from sandbox.compiler.toolset import Toolset, spoken
from sandbox.isolate.compiled import Diagnostic
from sandbox.journal.codeframe import code_frame

PYTHON = {
    "print": "`console.log(…)`",
    "len": "`list.length`, or `Object.keys(object).length`",
    "None": "`null`",
    "True": "`true`",
    "False": "`false`",
    "str": "`String(…)`",
    "int": "`Math.trunc(Number(…))`",
    "float": "`Number(…)`",
    "range": "`for (let i = 0; i < n; i++)`",
    "dict": "`{ … }`",
    "NodeJS": "no type at all, or `ReturnType<typeof setInterval>`",
}
CALLERS = frozenset({"callTool", "call_tool", "useTool", "executeTool", "invoke", "call", "tool", "tools"})
OPTIONS = frozenset({"timeout", "signal"})
OF_RUN = "`run` has `id`, `namespace`, `labels`, `deadline`, `parent` and `self`; the input is the parameter of `main(input: { … })`"
OF_TOOL_ERROR = "a `ToolError` has `tool`, `code`, `message`, `data` and `retryable`; `code` is a text such as `tool_failed`, `timeout` or `rate_limited`"
HERE = {
    "crypto": '`crypto` is there without an import: `crypto.randomUUID()`, `await crypto.subtle.digest("SHA-256", bytes)`',
    "url": "`URL` and `URLSearchParams` are there without an import",
    "util": "`TextEncoder`, `TextDecoder` and `structuredClone` are there without an import",
    "timers": 'write `await sleep("1s")`, with `import { sleep } from "rewind"`',
    "timers/promises": 'write `await sleep("1s")`, with `import { sleep } from "rewind"`',
}
MAIN = "`export default async function main(input: { … }) { … return result; }`"
_MODULE = re.compile(r'There is no module "(?:node:)?([^"]+)"\.')
_OWNER = re.compile(r"on type '(.+)'\.")
_PYTHON_MAIN = re.compile(r"^(?:async\s+)?def\s+\w+\s*\(", re.MULTILINE)
_COMMON_JS = re.compile(r"^(?:module\.)?exports\b", re.MULTILINE)
_FUNCTION = re.compile(
    r"^(?:export\s+)?(?:async\s+)?function\s+([\w$]+)|^(?:export\s+)?const\s+([\w$]+)\s*=\s*async\b",
    re.MULTILINE,
)


def habit(context: Context) -> Told | None:
    """Of what the compiler says: None where no habit explains it."""
    code, text = context.code, str(context.raw["text"])
    if code in {2304, 2503, 2552} and context.spelled in PYTHON:
        return Told(f"There is no `{context.spelled}`.", f"write {PYTHON[context.spelled]}")
    if code in {1434, 1005} and _PYTHON_MAIN.search(context.source.text):
        return Told("This is no TypeScript.", f"a script is TypeScript, not Python: {MAIN}")
    if code == 2503 and context.spelled in context.toolset.groups:
        return Told(
            f"`{context.spelled}` has tools, no types that a script could name.",
            "leave the annotation out: what comes from a tool has its type; or write the type as `{ … }`",
        )
    if code in {2305, 2724} and '"rewind"' in text:
        return _of_another_module(context)
    if code in {2339, 2551}:
        return _member(context)
    if (
        code in {2345, 2554, 2769}
        and context.imports.rewind.get(context.callee or context.path) == "waitForSignal"
    ):
        return Told(
            "`waitForSignal` takes the signal's name, then its options.",
            'write `await waitForSignal<{ yes: boolean }>("approval", { timeout: "3d" })`',
        )
    if code == 2554 and context.imports.rewind.get(context.path) == "sleep":
        return Told("`sleep` takes how long.", 'write `await sleep("5s")` or `await sleep(5000)`')
    if code == 2353 and context.tool is not None and context.spelled in OPTIONS:
        tool, name = spoken(context.tool), context.spelled
        return Told(
            f"`{name}` is no argument of `{tool}`, but an option of the call.",
            f"write it after the arguments: `{tool}({{ … }}, {{ {name}: … }})`",
        )
    if code == 2488 and "'Promise<" in text:
        return Told("A Promise is taken apart before its value is there.", "write `await` after the `=`")
    if code in {2362, 2363}:
        return Told(
            "One side of this arithmetic is no number.",
            "convert it: `Number(…)`; of dates take `.getTime()`, of their texts `Date.parse(…)`",
        )
    if code in {2355, 2366, 7030}:
        return Told(
            "Not every way through this function returns a value.",
            "end it with a `return`, or let its type say `| undefined`",
        )
    return None


def _of_another_module(context: Context) -> Told | None:
    name = context.spelled
    groups = context.toolset.groups
    if name in groups:
        return Told(
            f'`{name}` is a tool of this toolset, not of "rewind".',
            f'write `import {{ {name} }} from "rewind:tools"`',
        )
    if name not in CALLERS or not groups:
        return None
    tool = next(iter(context.toolset.tools))
    return Told(
        f'Module "rewind" has no `{name}`: tools are functions.',
        f'write `import {{ {next(iter(groups))} }} from "rewind:tools"` and `await {tool}({{ … }})`; there are {listed(list(groups))}',
    )


def _member(context: Context) -> Told | None:
    head, _, name = context.path.rpartition(".")
    owner = _OWNER.search(str(context.raw["text"]))
    if owner is None or not head:
        return None
    if context.imports.rewind.get(head) == "run":
        return Told(f"`run` has no `{name}`.", OF_RUN)
    if owner[1] == "ToolError":
        return Told(f"A `ToolError` has no `{name}`.", OF_TOOL_ERROR)
    if owner[1] == "{}":
        return Told(
            f"The type of `{head}` names no properties, so it has no `{name}`.",
            f"write its type where it is declared: `{head}: {{ {name}: … }}`",
        )
    if owner[1] == "string" and re.search(
        rf"\bfor\s*\(\s*(?:const|let|var)\s+{re.escape(head)}\s+in\b", context.source.text
    ):
        return Told(
            f"`{head}` is a key, a text: `for … in` goes over the keys.", f"write `for (const {head} of …)`"
        )
    return None


def about_nothing(given: str, wanted: str, name: str) -> str | None:
    """A hint, where what may be missing was given for what is needed."""
    for nothing in ("undefined", "null"):
        if given == nothing:
            return f"`{name}` is needed: give a value"
        if given.endswith(f" | {nothing}") and nothing not in wanted:
            return f"it may be {nothing}: give a value for that case, `… ?? value`, or return before it"
    return None


def in_other_words(refusal: Diagnostic, text: str, toolset: Toolset) -> Diagnostic:
    """What the stripper refuses, with a hint that knows the tools and the rest of the script."""
    hint: str | None = None
    if refusal.code == "unknown_module":
        found = _MODULE.search(refusal.message)
        module = "" if found is None else found[1]
        last = module.rpartition("/")[2]
        hint = HERE.get(module)
        if last in toolset.groups:
            hint = f'write `import {{ {last} }} from "rewind:tools"`'
    elif refusal.code == "no_default_export" and '"rewind:tools"' in refusal.message and toolset.groups:
        groups = list(toolset.groups)
        hint = f'write `import {{ {groups[0]} }} from "rewind:tools"`; there are {listed(groups)}'
    elif refusal.code == "missing_main":
        hint = _main_as_written(text)
    return refusal if hint is None else replace(refusal, hint=hint)


def _main_as_written(text: str) -> str | None:
    if _PYTHON_MAIN.search(text):
        return f"a script is TypeScript, not Python: {MAIN}"
    if _COMMON_JS.search(text):
        return f"a script is a module: instead of `module.exports` write {MAIN}"
    names = [one or other for one, other in _FUNCTION.findall(text)]
    if len(names) == 1:
        return f"write `export default` before {either(names)}, or call it `main`; its one parameter is the run's input"
    return None


def fenced(text: str) -> Diagnostic | None:
    """A script that was sent with the marks of the text around it."""
    if not text.lstrip().startswith("```"):
        return None
    return Diagnostic(
        severity="error",
        code="code_fence",
        message="The script begins with a code fence, which is no TypeScript.",
        line=1,
        column=1,
        end_line=1,
        end_column=4,
        frame=code_frame(text, 1, 1),
        hint="send the code alone, without ``` before and after it",
    )
