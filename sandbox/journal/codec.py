"""Entries and their stored bodies: the only file that knows the wire names.

A body is canonical JSON of an entry's own fields (not seq, type, time, cause, fire_at). Its one value object
is spliced in and out as text: the value inside is never parsed here. What each field of an entry is called
and how it is written follows from its dataclass; a field that the contract marks `?` is left out when None.
"""

import json
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from json.encoder import encode_basestring
from types import UnionType
from typing import Any, NamedTuple, cast, get_args, get_origin, get_type_hints

from sandbox.journal import entries
from sandbox.journal.canonical import canonical_text, number_text
from sandbox.journal.entries import Body, Callsite, Command, Entry, EntryType, StartTimer, Value
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import Seq, Sha256, TimeMs

TYPE_NAMES: dict[EntryType, str] = {type_: type_.name.lower() for type_ in EntryType}
TYPES: dict[str, EntryType] = {name: type_ for type_, name in TYPE_NAMES.items()}
TYPE_OF: dict[type[Body], EntryType] = {
    cls: TYPES[re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()] for cls in get_args(Body)
}
"""The entry type of each class of the union."""
_CLASS_OF = {type_: cls for cls, type_ in TYPE_OF.items()}

_WIRE_NAMES = {"from_": "from", "event": "cause"}
_OPTIONAL: dict[type, set[str]] = {
    entries.Parent: {"call"},
    entries.ScriptError: {"code", "cause", "truncated"},
    entries.ToolFailure: {"truncated"},
    entries.RunStarted: {"parent", "forked_at", "origin"},
    entries.ScheduleToolCall: {"idempotency_key"},
    entries.ToolCallCompleted: {"result", "error", "begun_at", "reused"},
    entries.TimerFired: {"reused"},
    entries.SignalReceived: {"reused"},
    entries.CancelRequested: {"detail", "limit", "allowed", "used", "event"},
    entries.SignalAwaited: {"timer", "from_"},
    entries.Log: {"truncated"},
}
# A stored column, and it is known only when the command has been appended.
_COLUMNS: dict[type, set[str]] = {StartTimer: {"fire_at"}}

_Write = Callable[[Any], bytes]
_Read = Callable[[Any, bytes | None], Any]


class _Field(NamedTuple):
    attribute: str
    wire: str
    prefix: bytes
    write: _Write
    read: _Read
    optional: bool
    required: bool
    absent_is_none: bool


# -- Writing


def encode_body(body: Body, callsite: Callsite | None = None) -> bytes:
    """Return the stored body of an entry: canonical JSON, `callsite` included."""
    return _write_fields(_PLANS[type(body)], body, callsite)


def wire_json(
    seq: Seq, type_: EntryType, time: TimeMs, *, cause: Seq | None, fire_at: TimeMs | None, body: bytes
) -> bytes:
    """Return an entry's public JSON, without parsing its body."""
    head = b'{"seq":%d,"type":"%b","time":%d' % (seq, TYPE_NAMES[type_].encode(), time)
    if cause is not None:
        head += b',"cause":%d' % cause
    if fire_at is not None:
        head += b',"fire_at":%d' % fire_at
    return head + (b"}" if body == b"{}" else b"," + body[1:])


def encode_value(value: Value) -> bytes:
    """Return the value object `{bytes, sha256, value}`; `value` only when it is inline."""
    if value.text is not None:
        return b'{"bytes":%d,"sha256":"%b","value":%b}' % (value.bytes, value.sha256.encode(), value.text)
    redacted = b',"redacted":true' if value.redacted else b""
    return b'{"bytes":%d%b,"sha256":"%b"}' % (value.bytes, redacted, value.sha256.encode())


def _write_fields(plan: tuple[_Field, ...], body: object, callsite: Callsite | None = None) -> bytes:
    parts: list[bytes] = []
    for attribute, _, prefix, write, _, optional, *_ in plan:
        value = callsite if attribute == "callsite" else getattr(body, attribute)
        if value is not None and (value is not False or attribute != "truncated"):
            parts += (prefix, write(value))
        elif not optional:
            parts += (prefix, b"null")
    return b"{%b}" % b"".join(parts)[1:]


# -- Reading

_VALUE = re.compile(
    rb'"(?:args|input|output|payload|result|data)":{"bytes":(\d+)(?:,"redacted":true)?,"sha256":"([0-9a-f]{64})"(,"value":|})'
)
_VALUE_TYPES = frozenset(
    type_
    for type_, cls in _CLASS_OF.items()
    if {"args", "input", "output", "payload", "result"} & {*cls.__annotations__}
)


def decode_body(type_: EntryType, body: bytes, fire_at: TimeMs | None = None) -> tuple[Body, Callsite | None]:
    """Read a stored body back.

    Errors: ImpossibleEntry when the bytes are no body of that type.
    """
    text = None
    rest = body
    if type_ in _VALUE_TYPES and (found := _VALUE.search(body)) and found[3] != b"}":
        # Canonical order puts this value object before anything that could imitate it.
        end = found.end() + int(found[1])
        text = body[found.end() : end]
        rest = b"%bnull%b" % (body[: found.end()], body[end:])
    try:
        raw = json.loads(rest)
        site = raw.pop("callsite", None)
        if type_ == EntryType.START_TIMER:
            raw["fire_at"] = fire_at or 0
        decoded = _read_fields(_CLASS_OF[type_], raw, text)
        callsite = None if site is None else Callsite(line=site["line"], column=site["column"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImpossibleEntry(f"not the body of a {TYPE_NAMES[type_]}: {error!r}") from error
    return cast("Body", decoded), callsite


def entry_from_row(
    seq: Seq, type_: EntryType, time: TimeMs, *, cause: Seq | None, fire_at: TimeMs | None, body: bytes
) -> Entry:
    """Make the entry of a stored row."""
    decoded, callsite = decode_body(type_, body, fire_at)
    return Entry(seq, time, decoded, cause, callsite)


def value_in(body: bytes) -> Value | None:
    """Return the value object of a stored body, without parsing it; None when the body has none.

    Only for bodies of the types that may have one: a logged value can look like one.
    """
    found = _VALUE.search(body)
    if found is None:
        return None
    size = int(found[1])
    text = None if found[3] == b"}" else body[found.end() : found.end() + size]
    redacted = b"redacted" in found[0]
    return Value(Sha256(found[2].decode()), size, text, redacted=redacted)


def _read_fields(cls: type, raw: dict[str, Any], text: bytes | None) -> object:
    given = {}
    for field in _READERS[cls]:
        if field.wire in raw:
            value = raw[field.wire]
            given[field.attribute] = None if value is None else field.read(value, text)
        elif field.required:
            raise KeyError(field.wire)
        elif field.absent_is_none:
            given[field.attribute] = None
    return cls(**given)


def _read_value(raw: dict[str, Any], text: bytes | None) -> Value:
    inline = text if "value" in raw else None
    return Value(raw["sha256"], raw["bytes"], inline, redacted=raw.get("redacted", False))


# -- Plans, made once from the dataclasses


def _coder(hint: Any) -> tuple[_Write, _Read]:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    if hint is Value:
        return encode_value, _read_value
    if is_dataclass(hint):
        nested = cast("type", hint)
        return partial(_write_fields, _plan(nested)), partial(_read_fields, nested)
    if hint is float:
        return lambda value: number_text(value).encode(), lambda raw, _: float(raw)
    if hint is int:
        return b"%d".__mod__, lambda raw, _: raw
    if hint is bool:
        return lambda value: b"true" if value else b"false", lambda raw, _: raw
    if hint is str or all(isinstance(choice, str) for choice in get_args(hint) or [None]):
        return lambda value: encode_basestring(value).encode(), lambda raw, _: raw
    return canonical_text, lambda raw, _: raw


def _plan(cls: type) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    plan = []
    for field in fields(cls):
        hint = hints[field.name]
        if get_origin(hint) is UnionType and len(get_args(hint)) == 2:
            hint = get_args(hint)[0]
        optional = field.name in _OPTIONAL.get(cls, ())
        wire = _WIRE_NAMES.get(field.name, field.name)
        required = field.default is MISSING
        known = (field.name, wire, f',"{wire}":'.encode(), *_coder(hint))
        plan.append(_Field(*known, optional, required and not optional, required and optional))
    if cls in get_args(Command):
        plan.append(_Field("callsite", "callsite", b',"callsite":', *_coder(Callsite), True, False, False))
    plan.sort(key=lambda field: field.wire)
    _READERS[cls] = tuple(field for field in plan if field.attribute != "callsite")
    return tuple(field for field in plan if field.attribute not in _COLUMNS.get(cls, ()))


_READERS: dict[type, tuple[_Field, ...]] = {}
_PLANS = {cls: _plan(cls) for cls in get_args(Body)}
