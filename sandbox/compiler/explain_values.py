"""What TypeScript says about values: arguments of tools, null, comparisons, what has no type; each with its fix."""

import re

from sandbox.compiler.context import Context, Told
from sandbox.compiler.habits import about_nothing
from sandbox.compiler.near import nearest
from sandbox.compiler.toolset import spoken
from sandbox.compiler.ts_types import Object
from sandbox.compiler.typed_tools import TypedTool

_QUOTED = re.compile(r"'([^']+)'")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_NAME = re.compile(r"[\w$.?\[\]]{1,60}")
_TEXTS = re.compile(r'"[^"]*"(?: \| "[^"]*")*')
_MISMATCH = re.compile(r"Type '([^']+)' is not assignable to type '([^']+)'")
_SINGLE = re.compile(r"Argument of type '(?:string|number|boolean|\"[^\"]*\"|[\d.]+|[\w.]+\[\])'")
_CONVERSIONS = {("string", "number"): "Number(…)", ("number", "string"): "String(…)"}
_MISSING = re.compile(r"missing the following properties from type '[^']*': (.+)$")


def unfitting(context: Context) -> Told | None:
    """A value that does not fit where it stands."""
    if context.callee == "JSON.parse":
        return Told("The argument of JSON.parse is no text.", "it is data already: leave out `JSON.parse`")
    general = _general(context)
    tool = context.tool
    if tool is None:
        return general
    usage = f"`{spoken(tool)}` takes {context.toolset.args(tool)}"
    told = _of_tool(context, tool)
    if told is None:
        named = f"`{context.spelled}`: " if _IDENTIFIER.fullmatch(context.spelled) else ""
        told = Told(context.text if context.text.startswith("`") else named + context.text)
        told = Told(told.message, None if general is None else general.hint)
    return Told(told.message, usage if told.hint is None else f"{told.hint}; {usage}")


def _of_tool(context: Context, tool: str) -> Told | None:
    """A mistake in the arguments as such, not in what is inside one of them."""
    code, text = context.code, str(context.raw["text"])
    known, called = context.toolset.called(tool), spoken(tool)
    if known is None:
        return None
    if code in {2554, 2555}:
        return Told(f"`{called}` takes one object with its arguments.")
    if code == 2345 and _SINGLE.match(text):
        return Told(f"`{called}` takes one object with its arguments, not single values.")
    about_args = f"'{known.args.name}'" in text
    if code in {2353, 2561} and about_args:
        name = context.spelled
        return Told(f"`{called}` has no argument `{name}`.", _meant_key(known, name))
    if code == 2741 and about_args:
        missing = _QUOTED.search(text)
        return Told(f"`{called}` needs `{missing[1] if missing else '…'}`.")
    several = _MISSING.search(text) if about_args else None
    if several:
        names = ", ".join(f"`{name.strip()}`" for name in several[1].rstrip(".").split(","))
        return Told(f"`{called}` needs {names}.")
    return None


def _meant_key(tool: TypedTool, name: str) -> str | None:
    """The argument that was meant, or the one inside of which it belongs."""
    args = tool.args.type
    if not isinstance(args, Object):
        return None
    near = nearest(name, [part.name for part in args.properties])
    if near:
        return f"did you mean `{near[0]}`?"
    for part in args.properties:
        if isinstance(part.type, Object) and any(inner.name == name for inner in part.type.properties):
            return f"`{name}` belongs into `{part.name}`: `{part.name}: {{ {name}: … }}`"
    return None


def _general(context: Context) -> Told | None:
    """Mistakes that are the same in every call."""
    text = context.text
    callee = context.callee
    from_rewind = context.imports.rewind.get(callee)
    if callee in {"setTimeout", "setInterval"} and "type 'string'" in text:
        if "'number'" in text:
            wait = '`await sleep("5s")`, with `import { sleep } from "rewind"`'
            return Told(text, f"the delay is a number of milliseconds; to wait, write {wait}")
        return Told(text, f"pass a function: `{callee}(() => …, 1000)`; code in a string does not run")
    if from_rewind == "sleep":
        return Told(
            "`sleep` takes milliseconds, a text or a Date.",
            'write `sleep(5000)`, `sleep("5s")`, `sleep("2h")` or `sleep(new Date(…))`',
        )
    if from_rewind == "retry" and context.code in {2353, 2561}:
        return Told(
            f"`retry` has no option `{context.spelled}`.",
            'write `retry(fn, { attempts: 5, backoff: "1s" })`; it has `attempts`, `backoff` and `on`',
        )
    mismatch = _MISMATCH.search(text)
    if mismatch is None:
        return None
    given, wanted = mismatch.groups()
    if given == "string" and _TEXTS.fullmatch(wanted):
        return Told(text, f"declare it as {wanted}, or write `as const` after the value")
    if (given, wanted) in _CONVERSIONS:
        return Told(text, f"convert it: `{_CONVERSIONS[given, wanted]}`")
    if given.startswith("Promise<"):
        return Told(text, "the value is a Promise: `await` it")
    nothing = about_nothing(given, wanted, context.spelled)
    if nothing is not None:
        return Told(text, nothing)
    if given == "never[]":
        return Told(text, f"a list needs the type of a list: `{wanted}[]`")
    if context.code == 2322 and context.tool is None and context.toolset.shape(given) is not None:
        return Told(
            text,
            "the result has a type already: leave the annotation out, or take the property that is needed",
        )
    return None


def possibly_nothing(context: Context) -> Told:
    name = context.spelled if _NAME.fullmatch(context.spelled) else "value"
    text = context.text
    nothing = "undefined" if "'undefined'" in text and "null" not in text else "null"
    message = f"`{name}` may be {nothing}."
    head = name.partition(".")[0].partition("?")[0].partition("[")[0]
    declared = context.declared(head)
    rest = "" if declared is None else context.source.text[declared.end() : declared.end() + 120]
    waited = re.match(r"await\s+([\w$]+)\b", rest)
    if waited and context.imports.rewind.get(waited[1]) == "waitForSignal":
        message = f"`{name}` is null when no signal came before the timeout."
    return Told(
        message, f"say what happens then: `if ({name} === {nothing}) return …` before, or `{name}?.…`"
    )


def unknown_value(context: Context) -> Told:
    name = context.spelled
    if re.search(rf"\bcatch\s*\(\s*{re.escape(name)}\s*\)", context.source.text) is None:
        return Told(
            context.text, "look at its type first (`typeof`, `instanceof`), or write `value as { … }`"
        )
    return Told(
        f"`{name}` is unknown: anything can be thrown.",
        f"write `{name} instanceof Error ? {name}.message : String({name})`; a tool that fails throws a "
        f'`ToolError` (`import {{ ToolError }} from "rewind"`), which has `code` and `message`',
    )


def comparison(context: Context) -> Told:
    types = _QUOTED.findall(context.text)
    if len(types) < 2:
        return Told("The two sides of this comparison can never be equal.")
    one, other = types[0], types[1]
    message = f"The two sides can never be equal: `{one}` and `{other}`."
    if one.endswith("[]") or other.endswith("[]"):
        return Told(message, "one side is a list: `list.includes(value)`")
    wanted = re.findall(r'"([^"]*)"', other)
    near = nearest(wanted[0], re.findall(r'"([^"]*)"', one)) if wanted else []
    return Told(message, f'did you mean "{near[0]}"?' if near else None)


def without_type(context: Context) -> Told:
    """TS7006, TS7031: a warning."""
    name = context.spelled.partition("=")[0].strip()
    before = context.source.text[max(0, context.start - 200) : context.start]
    head = r"(?:function\s+main|\bmain\s*=\s*(?:async\s*)?|export\s+default\s+(?:async\s+)?(?:function\s*[\w$]*)?)"
    if re.search(head + r"\s*\([^()]*$", before):
        return Told(
            "main's parameter has no type, so no input is checked.",
            "write what it takes: `main(input: { repo: string; days?: number })`",
        )
    return Told(
        f"`{name}` has no type, so nothing that is done with it is checked.", f"write `({name}: …) =>`"
    )


def no_index(context: Context) -> Told:
    return Told(
        context.text.partition(" because ")[0].rstrip(".") + ": this object has no such key.",
        "declare the object as `Record<string, …>`, or the key as `keyof typeof object`",
    )


def await_outside(context: Context) -> Told:
    message = "`await` stands in a function that is not async."
    if any(path.endswith(".forEach") for path in context.calls[:2]):
        return Told(message, "forEach waits for nothing: write `for (const one of list) { await … }`")
    return Told(message, "write `async` before the function's parameters, or `function`")


def return_outside(context: Context) -> Told:
    del context
    return Told("A `return` stands outside of every function.", "return the result from `main`")


def missing_mark(context: Context) -> Told:
    expected = re.match(r"'(.+)' expected\.", context.text)
    if expected is None:
        return Told(context.text)
    mark = expected[1]
    return Told(
        f"`{mark}` is missing here.", f"put the `{mark}` where it belongs, on this line or the one before"
    )
