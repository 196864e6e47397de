"""What a script's main takes and gives: as text for people and models, and its input as a JSON Schema.

The schema says only what it is sure of: what JSON Schema cannot express, or what a type computes from others,
accepts anything. Objects may have further properties.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sandbox.journal.ids import Json

TYPES_MAX = 400
"""Types that are looked at for one script; the rest accepts anything."""
DEPTH_MAX = 12
TEXT_MAX = 2_000
"""Characters of a type's text."""

_ANY_OR_UNKNOWN, _UNDEFINED, _NULL, _VOID = 3, 4, 8, 16
_STRING, _NUMBER, _BOOLEAN = 32, 64, 256
_STRING_LITERAL, _NUMBER_LITERAL, _BOOLEAN_LITERAL, _NEVER = 1024, 2048, 8192, 262144
_ABSENT = _ANY_OR_UNKNOWN | _UNDEFINED | _VOID
_OBJECT, _TEMPLATE, _UNION, _INTERSECTION = 1 << 20, 1 << 22, 1 << 27, 1 << 28
_NO_TRUNCATION, _IN_ALIAS = 1, 1 << 23
_OPTIONAL_SYMBOL = 1 << 24
_CALLS, _CONSTRUCTS = 0, 1
_OPTIONAL_ELEMENT, _REST_ELEMENT, _VARIADIC_ELEMENT = 2, 4, 8
_VALUES = 111551
"""Meaning of a name: variables, functions, classes."""

Schema = dict[str, Any]


class Asking(Protocol):
    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class MainTypes:
    """`input_schema` is true when anything is accepted."""

    input_type: str | None = None
    output_type: str | None = None
    input_schema: Json = True
    input_at: int | None = None
    """Where main's parameter stands in the source, in UTF-16 units."""
    output_schema: Json = True
    """Of the output as JSON; true when it was not asked for, or may be anything."""


async def main_types(
    tsc: Asking, where: dict[str, Any], *, entry: tuple[str, int], script: str, output: bool = False
) -> MainTypes:
    """Read the types of the script's main. entry: where another file names its default export.

    `output`: its schema is wanted too.
    """
    file, position = entry
    type_ = await tsc.call("getTypeAtPosition", {**where, "file": file, "position": position})
    signatures = await _signatures(tsc, where, type_)
    if not signatures:
        symbol = await tsc.call(
            "resolveName", {**where, "name": "main", "meaning": _VALUES, "file": script, "position": 0}
        )
        if symbol is None:
            return MainTypes()
        type_ = await tsc.call("getTypeOfSymbol", {**where, "symbol": symbol["id"]})
        signatures = await _signatures(tsc, where, type_)
    if len(signatures) != 1:  # an overloaded main accepts what its implementation makes of it
        return MainTypes()
    found = await _Walk(tsc, where).main(signatures[0])
    if not output:
        return found
    return replace(found, output_schema=await _Walk(tsc, where).output(signatures[0]))


async def _signatures(tsc: Asking, where: dict[str, Any], type_: Any) -> list[Any]:
    if type_ is None or type_["flags"] & _ANY_OR_UNKNOWN:
        return []
    return await tsc.call("getSignaturesOfType", {**where, "type": type_["id"], "kind": _CALLS}) or []


class _Walk:
    def __init__(self, tsc: Asking, where: dict[str, Any]) -> None:
        self._tsc = tsc
        self._where = where
        self._left = TYPES_MAX
        self._names: dict[int, str] = {}
        """Object types that are being described, by id: met again, they are referred to."""
        self._used: set[str] = set()
        self._defs: Schema = {}

    async def main(self, signature: dict[str, Any]) -> MainTypes:
        output = await self._ask("getReturnTypeOfSignature", signature=signature["id"])
        output_type = None if output is None else await self._text(await self._awaited(output))
        if not signature.get("parameters"):
            return MainTypes(output_type=output_type)
        parameter = await self._ask("getParameterType", signature=signature["id"], index=0)
        if parameter is None:
            return MainTypes(output_type=output_type)
        schema = await self._schema(parameter, 0)
        schema = await self._whole(schema, parameter)  # an input that is not given is null
        return MainTypes(await self._text(parameter), output_type, schema)

    async def output(self, signature: dict[str, Any]) -> Json:
        returned = await self._ask("getReturnTypeOfSignature", signature=signature["id"])
        if returned is None:
            return True
        type_ = await self._awaited(returned)
        if type_["flags"] & (_VOID | _UNDEFINED):
            return {"type": "null"}
        return await self._whole(await self._schema(type_, 0), type_)  # an output that is undefined is null

    async def _whole(self, schema: Json, type_: Any) -> Json:
        """The schema with what it refers to, and with null for what may be absent."""
        if schema is not True and await self._may_be_absent(type_):
            schema = {"anyOf": [schema, {"type": "null"}]}
        if isinstance(schema, dict) and self._defs:
            schema = {**schema, "$defs": self._defs}
        return schema

    async def _ask(self, method: str, **params: Any) -> Any:
        return await self._tsc.call(method, {**self._where, **params})

    async def _text(self, type_: Any) -> str:
        text: str = await self._ask("typeToString", type=type_["id"], flags=_NO_TRUNCATION | _IN_ALIAS)
        return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"

    async def _awaited(self, type_: Any) -> Any:
        if type_["flags"] & _OBJECT and type_.get("target") is not None:
            text = await self._ask("typeToString", type=type_["id"])
            if text.startswith("Promise<"):
                arguments = await self._ask("getTypeArguments", type=type_["id"])
                return arguments[0] if arguments else type_
        return type_

    async def _schema(self, type_: Any, depth: int) -> Json:
        """True: anything is accepted."""
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            return True
        flags = type_["flags"]
        for flag, name in ((_STRING, "string"), (_NUMBER, "number"), (_BOOLEAN, "boolean"), (_NULL, "null")):
            if flags & flag:
                return {"type": name}
        if flags & (_STRING_LITERAL | _NUMBER_LITERAL):
            return {"const": type_["value"]}
        if flags & _BOOLEAN_LITERAL:
            return {"const": await self._ask("typeToString", type=type_["id"]) == "true"}
        if flags & _TEMPLATE:
            return {"type": "string"}
        if flags & (_UNDEFINED | _VOID | _NEVER):
            return False  # no JSON is this
        if flags & _UNION:
            return await self._union(type_, depth)
        if flags & _INTERSECTION:
            return await self._object(type_, depth)
        if flags & _OBJECT:
            return await self._object_or_list(type_, depth)
        return True

    async def _union(self, type_: Any, depth: int) -> Json:
        members = await self._ask("getTypesOfType", objectId=type_["id"]) or []
        schemas: list[Json] = []
        for member in members:
            schema = await self._schema(member, depth)
            if schema is True:
                return True
            if schema is not False and schema not in schemas:
                schemas.append(schema)
        constants = [one["const"] for one in schemas if isinstance(one, dict) and set(one) == {"const"}]
        others = [one for one in schemas if not (isinstance(one, dict) and set(one) == {"const"})]
        if set(map(repr, constants)) == {"True", "False"}:
            constants, others = [], [{"type": "boolean"}, *others]
        if constants:
            others.append({"enum": constants} if len(constants) > 1 else {"const": constants[0]})
        if not others:
            return False
        return others[0] if len(others) == 1 else {"anyOf": others}

    async def _may_be_absent(self, type_: Any) -> bool:
        if type_ is None or type_["flags"] & _ABSENT:
            return True
        if not type_["flags"] & _UNION:
            return False
        members = await self._ask("getTypesOfType", objectId=type_["id"]) or []
        return any(member["flags"] & _ABSENT for member in members)

    async def _object_or_list(self, type_: Any, depth: int) -> Json:
        element = type_.get("target")
        if element is not None and await self._ask("isTupleType", type=type_["id"]):
            return await self._tuple(type_, depth)
        if element is not None and await self._ask("isArrayType", type=type_["id"]):
            items = await self._ask("getTypeArguments", type=type_["id"]) or []
            return {"type": "array", "items": await self._schema(items[0], depth + 1) if items else True}
        return await self._object(type_, depth)

    async def _tuple(self, type_: Any, depth: int) -> Json:
        target = await self._ask("getTargetOfType", objectId=type_["id"])
        kinds = target["elementFlags"]
        if any(kind & (_REST_ELEMENT | _VARIADIC_ELEMENT) for kind in kinds):
            return {"type": "array"}
        items = await self._ask("getTypeArguments", type=type_["id"]) or []
        prefix = [await self._schema(item, depth + 1) for item in items]
        least = sum(1 for kind in kinds if not kind & _OPTIONAL_ELEMENT)
        return {"type": "array", "prefixItems": prefix, "minItems": least, "maxItems": len(prefix)}

    async def _object(self, type_: Any, depth: int) -> Json:
        identity = type_["id"]
        if identity in self._names:
            self._used.add(self._names[identity])
            return {"$ref": f"#/$defs/{self._names[identity]}"}
        if await self._is_more_than_data(type_):
            return True
        name = self._names[identity] = f"T{len(self._names) + 1}"
        schema = await self._members(type_, depth)
        del self._names[identity]
        if name not in self._used:
            return schema
        self._defs[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    async def _is_more_than_data(self, type_: Any) -> bool:
        """Functions and classes have no JSON; objects of the language (Date, Map) have one of their own."""
        for kind in (_CALLS, _CONSTRUCTS):
            if await self._ask("getSignaturesOfType", type=type_["id"], kind=kind):
                return True
        return False

    async def _members(self, type_: Any, depth: int) -> Json:
        properties = await self._ask("getPropertiesOfType", type=type_["id"]) or []
        indexes = await self._ask("getIndexInfosOfType", type=type_["id"]) or []
        if any(_from_globals(one) for one in properties):
            return True
        types: Sequence[Any] = ()
        if properties:
            types = await self._ask("getTypesOfSymbols", symbols=[one["id"] for one in properties])
        schema: Schema = {"type": "object"}
        known: Schema = {}
        required = []
        for symbol, member in zip(properties, types, strict=True):
            if symbol["name"].startswith(("__@", "\xfe")):
                return True  # keyed by a symbol
            name = _property_name(symbol["name"])
            optional = bool(symbol["flags"] & _OPTIONAL_SYMBOL)
            described = True if member is None else await self._schema(member, depth + 1)
            known[name] = described
            if not optional and not await self._may_be_absent(member):
                required.append(name)
        if known:
            schema["properties"] = known
        if required:
            schema["required"] = required
        for index in indexes:
            if index["keyType"]["flags"] & _STRING:
                schema["additionalProperties"] = await self._schema(index["valueType"], depth + 1)
        return schema


def _from_globals(symbol: Any) -> bool:
    """Whether the property is one of the language's or the web's objects."""
    return any(str(one).endswith("/lib.d.ts") for one in symbol.get("declarations") or [])


def _property_name(name: str) -> str:
    """TypeScript writes names that begin with two underscores with a third."""
    return name[1:] if name.startswith("___") else name
