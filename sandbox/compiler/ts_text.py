"""TypeScript types as text: over several lines with documentation, or on one line for a prompt."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from sandbox.compiler.ts_types import (
    ANY,
    UNKNOWN,
    Alias,
    ArrayOf,
    Both,
    Index,
    Literal,
    Object,
    Tuple,
    Type,
    Union,
    Word,
    union,
)

LINE_CHARS = 100
"""An object without documentation that is no longer than this stays on one line."""
INDEX_MEMBERS_MAX = 8
"""Types that an index signature lists beside its own, so that named properties fit it; above: `unknown`."""
INHERITED = frozenset(
    {
        "constructor",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "toLocaleString",
        "toString",
        "valueOf",
    }
)
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_LINE_ENDS = re.compile("[\r\n\u2028\u2029]+")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_UNDEFINED = Word("undefined")


def quoted(text: str) -> str:
    """A string literal; whatever could end or reorder the line is escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    return plain if plain.isprintable() else json.dumps(text)


def key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else quoted(name)


def literal_text(item: Literal) -> str:
    if isinstance(item.value, str):
        return quoted(item.value)
    return json.dumps(item.value)


def doc_lines(text: str, chars_max: int) -> list[str]:
    """Text that may stand in a comment: it cannot end it, nor hide anything in it."""
    cut = text if len(text) <= chars_max else text[:chars_max].rstrip() + "…"
    safe = cut.encode(errors="replace").decode()
    lines = [_CONTROLS.sub("", line).replace("*/", "*\\/").rstrip() for line in _LINE_ENDS.split(safe)]
    return [line for line in lines if line.strip()]


def comment(lines: Sequence[str], indent: str) -> str:
    """A documentation comment with its line end; nothing for no lines."""
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0].strip()} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}\n" for line in lines) + f"{indent} */\n"


def block(item: Type, indent: str = "") -> str:
    """The type with documentation; further lines begin with `indent`."""
    return _text(item, indent, docs=True)


def line(item: Type) -> str:
    """The type on one line, without documentation."""
    return _text(item, "", docs=False)


def _text(item: Type, indent: str, *, docs: bool) -> str:
    match item:
        case Word(text):
            return text
        case Literal():
            return literal_text(item)
        case Alias(name):
            return name
        case ArrayOf(inner):
            return f"{_grouped(inner, indent, docs=docs)}[]"
        case Tuple():
            return _tuple(item, indent, docs=docs)
        case Object():
            return _object(item, indent, docs=docs)
        case Union(members):
            return " | ".join(
                f"({_text(member, indent, docs=docs)})"
                if isinstance(member, Both)
                else _text(member, indent, docs=docs)
                for member in members
            )
        case Both(members):
            return " & ".join(_grouped(member, indent, docs=docs) for member in members)


def _grouped(item: Type, indent: str, *, docs: bool) -> str:
    text = _text(item, indent, docs=docs)
    return f"({text})" if isinstance(item, Union | Both) else text


def _tuple(item: Tuple, indent: str, *, docs: bool) -> str:
    parts = [
        _text(part, indent, docs=docs)
        if position < item.required
        else f"{_grouped(part, indent, docs=docs)}?"
        for position, part in enumerate(item.items)
    ]
    if item.rest is not None:
        parts.append(f"...{_grouped(item.rest, indent, docs=docs)}[]")
    return f"[{', '.join(parts)}]"


def _object(item: Object, indent: str, *, docs: bool) -> str:
    if not item.properties and not item.indexes:
        return "Record<string, never>"
    item = _with_inherited(item) if docs else item
    inner = f"{indent}  "
    heads = [f"{key(part.name)}{'?' if part.optional else ''}" for part in item.properties]
    parts = [(head, part.type) for head, part in zip(heads, item.properties, strict=True)]
    parts += [_index(item, index) for index in item.indexes]
    fields = [f"{head}: {_text(found, inner, docs=docs)}" for head, found in parts]
    if not docs:
        return f"{{ {'; '.join(fields)} }}"
    comments = [comment(part.doc, inner) for part in item.properties] + [""] * len(item.indexes)
    short = sum(len(field) + 2 for field in fields) <= LINE_CHARS and not any(
        "\n" in field for field in fields
    )
    if short and not any(comments):
        return f"{{ {'; '.join(fields)} }}"
    lines = [f"{doc}{inner}{field};\n" for doc, field in zip(comments, fields, strict=True)]
    return "{\n" + "".join(lines) + indent + "}"


def _with_inherited(item: Object) -> Object:
    """Where a property is absent that every object inherits, reading it gives the inherited one: `{}` fits the type."""
    if not any(part.optional and part.name in INHERITED for part in item.properties):
        return item
    properties = [
        replace(part, type=union([part.type, Word(f'Object["{part.name}"]')]))
        if part.optional and part.name in INHERITED
        else part
        for part in item.properties
    ]
    return replace(item, properties=tuple(properties))


def _index(item: Object, index: Index) -> tuple[str, Type]:
    """An index signature must admit the named properties that it covers, so it is widened by their types."""
    head = "[key: string]" if not index.prefix else f"[key: `{_template(index.prefix)}${{string}}`]"
    covered = [part for part in item.properties if part.name.startswith(index.prefix)]
    narrower = [other for other in item.indexes if other.prefix != index.prefix and not index.prefix]
    narrower += [
        other for other in item.indexes if index.prefix and len(other.prefix) > len(index.prefix)
        and other.prefix.startswith(index.prefix)
    ]  # fmt: skip
    if index.type in (UNKNOWN, ANY) or not (covered or narrower):
        return head, index.type
    wide = union(
        [index.type, *(part.type for part in covered), *(other.type for other in narrower)]
        + [_UNDEFINED for part in covered[:1] if any(found.optional for found in covered)]
    )
    if isinstance(wide, Union) and len(wide.members) > INDEX_MEMBERS_MAX:
        return head, UNKNOWN
    return head, wide


def _template(text: str) -> str:
    return text.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
