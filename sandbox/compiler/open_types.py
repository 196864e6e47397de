"""Mistakes that are none: what the compiler says of values whose shape no schema gives.

Most servers list tools without schemas of their results. A set of such results is a set of `unknown` to TypeScript, and
every use of one an error, though the script is right. Where a toolset leaves shapes open these are warnings; the values
are still checked where they matter, at the arguments of the next tool.
"""

import re
from collections.abc import Iterable

from sandbox.compiler.context import Context
from sandbox.compiler.toolset import Toolset
from sandbox.compiler.ts_types import UNKNOWN, ArrayOf, Both, Object, Tuple, Type, Union
from sandbox.compiler.typed_tools import TypedSchema

_MISMATCHES = frozenset({2322, 2345, 2769})
"""A value of unknown type where a known one belongs."""
_USES = frozenset({18046, 2571})
"""`value.name`, `value + 1`, …"""
_UNKNOWN_OF = {
    2339: "on type 'unknown'",
    2349: "Type 'unknown' has no call signatures",
    2351: "Type 'unknown' has no construct signatures",
    2461: "Type 'unknown' is not an array type",
    2488: "Type 'unknown' must have a '[Symbol.iterator]()'",
    2504: "Type 'unknown' must have a '[Symbol.asyncIterator]()'",
    2538: "Type 'unknown' cannot be used as an index type",
}
_ANY_CALLED = 2347
"""`list.reduce<Totals>(…)` of an `any`: type arguments are blanked like all types."""
_SPREAD = 2698
"""`{...value}`: whatever it is, this never throws."""


def leaves_open(toolset: Toolset) -> bool:
    """Whether a tool gives something of which no schema says what it is."""
    if toolset.http:
        return True
    called = (*toolset.tools.values(), *toolset.workflows.values())
    return any(tool.result is None or _open(tool.result) for tool in called)


def of_open_value(context: Context) -> bool:
    """Whether the compiler complains only because a value's type is not known."""
    code, text = context.code, context.text
    if code in _MISMATCHES:
        return "'unknown' is not assignable to" in text
    if code in _USES:
        return not _caught(context)
    if code == 2339 and "on type '{}'" in text:  # `value?.name`, `value!.name`: unknown, but not null
        return context.source.text[: context.start].rstrip().endswith(("?.", "!."))
    return code in {_ANY_CALLED, _SPREAD} or _UNKNOWN_OF.get(code, "\0") in text


def _caught(context: Context) -> bool:
    """What was thrown is unknown in every toolset: the script must look at it first."""
    return re.search(rf"\bcatch\s*\(\s*{re.escape(context.spelled)}\s*\)", context.source.text) is not None


def _open(schema: TypedSchema) -> bool:
    return any(_holds_unknown(found) for found in [schema.type, *schema.aliases.values()])


def _holds_unknown(found: Type) -> bool:
    return found == UNKNOWN or any(_holds_unknown(part) for part in _parts(found))


def _parts(found: Type) -> Iterable[Type]:
    match found:
        case ArrayOf(item):
            return (item,)
        case Tuple(items, _, rest):
            return items if rest is None else (*items, rest)
        case Object(properties, indexes):
            return (*(part.type for part in properties), *(index.type for index in indexes))
        case Union(members) | Both(members):
            return members
    return ()
