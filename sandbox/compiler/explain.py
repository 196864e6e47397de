"""One diagnostic of TypeScript, said to the model that wrote the script: what is wrong, and the one obvious fix.

Every rule answers a mistake that models make; `tests/sandbox/compiler/golden` shows each with its text.
"""

import re
from collections.abc import Callable

from sandbox.compiler.context import Context, Told
from sandbox.compiler.explain_names import (
    absent_global,
    not_callable,
    unknown_export,
    unknown_member,
    unknown_module,
    unknown_name,
)
from sandbox.compiler.explain_values import (
    await_outside,
    comparison,
    missing_mark,
    no_index,
    possibly_nothing,
    return_outside,
    unfitting,
    unknown_value,
    without_type,
)
from sandbox.compiler.habits import habit

MESSAGE_CHARS_MAX = 600
_MEANT = re.compile(r"\.? Did you mean(?: to write| to use)? (?!to )['‘]?(.+?)['’]?\?$")
_ALIAS = re.compile(r"'(?:Promise<)?([A-Z][A-Za-z0-9]*)>?(?:\[\])?'")
_ADVICE = re.compile(r" Do you need to .*| Try `npm .*", re.DOTALL)

Rule = Callable[[Context], Told | None]
RULES: dict[int, Rule] = {
    **dict.fromkeys((2304, 2552, 2580, 2581, 2582, 2583, 2584, 2591, 2592, 2503, 18004), unknown_name),
    **dict.fromkeys((2305, 2614, 2724), unknown_export),
    **dict.fromkeys((2307, 2792), unknown_module),
    **dict.fromkeys((2339, 2550, 2551), unknown_member),
    2349: not_callable,
    7017: absent_global,
    **dict.fromkeys((2345, 2322, 2353, 2561, 2739, 2740, 2741, 2769, 2820, 2554, 2555, 2559), unfitting),
    **dict.fromkeys((2531, 2532, 2533, 18047, 18048, 18049), possibly_nothing),
    **dict.fromkeys((2571, 18046), unknown_value),
    2367: comparison,
    **dict.fromkeys((7006, 7031), without_type),
    7053: no_index,
    1308: await_outside,
    1108: return_outside,
    1005: missing_mark,
}


def explain(context: Context) -> Told:
    """Say it. What has no rule of its own is said in TypeScript's words, without its advice about files."""
    rule = RULES.get(context.code)
    told = habit(context) or (rule(context) if rule is not None else None) or Told(context.text)
    hints = [] if told.hint is None else [told.hint]
    meant = _MEANT.search(str(context.raw["text"]))
    if meant and "did you mean" not in (told.hint or ""):
        hints.insert(0, f"did you mean `{meant[1]}`?")
    message = _ADVICE.sub("", _MEANT.sub(".", told.message))
    if not any(" takes " in hint for hint in hints):
        hints += _shapes(context)
    return Told(_short(message), "; ".join(hints).replace("?; ", "? ") or None)


def _shapes(context: Context) -> list[str]:
    """What the tool takes or gives whose type the message names."""
    for alias in _ALIAS.findall(context.text):
        shape = context.toolset.shape(alias)
        if shape is not None:
            return [shape]
    return []


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS_MAX else text[:MESSAGE_CHARS_MAX] + "…"
