"""JSON Schema (2020-12, and as it was before) to TypeScript types.

What is passed *in* is closed: properties that the schema does not name are errors, unless it says explicitly
that there may be others. What comes *out* is as open as TypeScript's objects are. What TypeScript cannot say
(`not`, `if`, ranges, most patterns) is left to the validation at run time: a type never refuses what the schema
accepts, but for closed inputs.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sandbox.compiler.schema_docs import documented, value_size
from sandbox.compiler.schema_refs import References, UnresolvedRef
from sandbox.compiler.ts_types import (
    ANY_OBJECT,
    BOOLEAN,
    NEVER,
    NULL,
    NUMBER,
    STRING,
    UNKNOWN,
    Alias,
    ArrayOf,
    Index,
    Object,
    Property,
    Tuple,
    Type,
    both,
    literal_of,
    size_of,
    union,
)

DEPTH_MAX = 64
"""Levels of schemas inside schemas that are typed; below, everything is `unknown`."""
NODES_MAX = 20_000
"""Subschemas, properties and values of one schema that are typed; the rest is `unknown`."""
TOOLSET_NODES_MAX = 400_000
"""The same for all schemas of a toolset."""
ENUM_VALUES_MAX = 1_000
"""Values that a type lists; an enum with more is typed by what kind of values it has."""
PATTERNS_MAX = 16
"""Kinds of property names that an object is typed with."""
WARNINGS_MAX = 10
"""Of one schema."""
Direction = Literal["in", "out"]

_OBJECT_WORDS = ("properties", "required", "additionalProperties", "patternProperties", "propertyNames")
_ARRAY_WORDS = ("items", "prefixItems", "additionalItems")
_WORDS = {"string": STRING, "number": NUMBER, "integer": NUMBER, "boolean": BOOLEAN, "null": NULL}
_PREFIX = re.compile(r"\^((?:[A-Za-z0-9_:@/ -]|\\[.\-/$])+)(?:\.\*\$?|\.\+\$?)?")


@dataclass(slots=True)
class Budget:
    """What the schemas of one toolset have been typed with so far."""

    spent: int = 0


@dataclass(slots=True)
class _Target:
    """A schema that references lead to."""

    name: str
    alias: Alias
    schema: Any
    begun: bool = False


@dataclass
class SchemaTypes:
    """Compiles one schema. `names` gives each of its named parts a name that the module has not used yet.

    Limits: the constants of this module; what is over them is typed loosely, and `warnings` says where.
    """

    root: Any
    direction: Direction
    names: Callable[[str], str]
    budget: Budget = field(default_factory=Budget)
    warnings: list[str] = field(default_factory=list)
    aliases: dict[str, Type] = field(default_factory=dict)
    docs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of aliases that have any."""
    _targets: dict[str, "_Target"] = field(default_factory=dict)
    _by_alias: dict[str, "_Target"] = field(default_factory=dict)
    _waiting: list["_Target"] = field(default_factory=list)
    """Aliases that were met inside of something: compiled one after another, so that no chain gets deep."""
    _nodes: int = 0
    _full: bool = False
    _heads: tuple[str, ...] = ()
    """References that are being compiled with nothing around them yet: to meet one again is a circle."""

    def compile(self, name: str) -> Type:
        """The type of the schema, to be declared as `name`; `aliases` then has all that it refers to."""
        self._references = References(self.root)
        self._targets["#"] = _Target("#", Alias(name), self.root, begun=True)
        self._heads = ("#",)
        made = self._schema(self.root, "", 0)
        while self._waiting:
            self._settle(self._waiting.pop(), 0)
        return made

    def _warn(self, path: str, message: str) -> None:
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings.append(f"{path or 'the schema'}: {message}")

    def _spend(self, path: str, nodes: int = 1) -> bool:
        """Whether this much may still be typed."""
        over = self._nodes >= NODES_MAX or self.budget.spent >= TOOLSET_NODES_MAX
        self._nodes += nodes
        self.budget.spent += nodes
        if self._nodes >= NODES_MAX:
            self._warn_once(path, f"a schema is typed up to {NODES_MAX:,} parts; the rest is `unknown`")
        elif self.budget.spent >= TOOLSET_NODES_MAX:
            self._warn_once(
                path, f"a toolset is typed up to {TOOLSET_NODES_MAX:,} parts; the rest is `unknown`"
            )
        return not over

    def _warn_once(self, path: str, message: str) -> None:
        if not self._full:
            self._warn(path, message)
        self._full = True

    def _schema(self, schema: Any, path: str, depth: int) -> Type:
        if not isinstance(schema, dict):
            return NEVER if schema is False else UNKNOWN
        if not self._spend(path):
            return UNKNOWN
        if depth >= DEPTH_MAX:
            self._warn(path, f"schemas are typed to a depth of {DEPTH_MAX}; below, everything is `unknown`")
            return UNKNOWN
        found: Type = UNKNOWN
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(word), str):
                found = self._combined(
                    found, self._reference(schema[word], _at(path, word), depth), path, depth
                )
                if word == "$ref" and "/draft-0" in str(self._dialect()):
                    return found
        found = self._combined(found, self._own(schema, path, depth), path, depth)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                found = self._combined(
                    found, self._variants(schema[word], _at(path, word), depth), path, depth
                )
        for number, part in enumerate(_list(schema.get("allOf"))):
            found = self._combined(
                found, self._schema(part, f"{_at(path, 'allOf')}[{number}]", depth + 1), path, depth
            )
        if _is_never(schema):
            return NEVER
        return union([found, NULL]) if schema.get("nullable") is True and found != UNKNOWN else found

    def _dialect(self) -> Any:
        return self.root.get("$schema") if isinstance(self.root, dict) else None

    def _combined(self, one: Type, other: Type, path: str, depth: int) -> Type:
        if UNKNOWN in (one, other):
            return other if one == UNKNOWN else one
        made = both(self._expanded(one, depth), self._expanded(other, depth))
        return made if self._spend(path, size_of(made)) else one

    def _variants(self, schemas: list[Any], path: str, depth: int) -> Type:
        return union(
            self._schema(variant, f"{path}[{number}]", depth + 1) for number, variant in enumerate(schemas)
        )

    def _own(self, schema: Mapping[str, Any], path: str, depth: int) -> Type:
        """What the schema says by itself, without references and combinations."""
        if "const" in schema:
            return both(self._value(schema["const"], path), self._typed(schema, path, depth))
        if isinstance(schema.get("enum"), list):
            return both(self._enum(schema["enum"], path), self._typed(schema, path, depth))
        return self._typed(schema, path, depth)

    def _enum(self, values: list[Any], path: str) -> Type:
        if len(values) > ENUM_VALUES_MAX:
            self._warn(
                path,
                f"an enum of {len(values):,} values is typed by their kind (at most {ENUM_VALUES_MAX:,})",
            )
            kinds = {type(value) for value in values}
            return union(_KINDS.get(kind, UNKNOWN) for kind in sorted(kinds, key=str))
        return union(self._value(value, path) for value in values)

    def _value(self, value: Any, path: str) -> Type:
        size = value_size(value)
        return literal_of(value) if size is not None and self._spend(path, size) else UNKNOWN

    def _typed(self, schema: Mapping[str, Any], path: str, depth: int) -> Type:
        named = schema.get("type")
        if isinstance(named, list):
            return union(self._of_type(word, schema, path, depth) for word in named)
        if named is None:
            if any(word in schema for word in _OBJECT_WORDS):
                named = "object"
            elif any(word in schema for word in _ARRAY_WORDS):
                named = "array"
        return self._of_type(named, schema, path, depth)

    def _of_type(self, named: Any, schema: Mapping[str, Any], path: str, depth: int) -> Type:
        if named == "object":
            return self._object(schema, path, depth)
        if named == "array":
            return self._array(schema, path, depth)
        return _WORDS.get(named, UNKNOWN) if isinstance(named, str) else UNKNOWN

    def _inside(self, schema: Any, path: str, depth: int) -> Type:
        """A schema of a part of the value: a reference met there may lead back to the whole."""
        heads, self._heads = self._heads, ()
        try:
            return self._schema(schema, path, depth + 1)
        finally:
            self._heads = heads

    def _array(self, schema: Mapping[str, Any], path: str, depth: int) -> Type:
        rest = schema.get("items", True)
        first = schema.get("prefixItems")
        if isinstance(rest, list):
            first, rest = rest, schema.get("additionalItems", True)
        if isinstance(first, list) and first:
            first = first[: _count(schema, "maxItems", len(first))]
            if len(first) == schema.get("maxItems") or (
                rest is True and schema.get("unevaluatedItems") is False
            ):
                rest = False
        following = self._inside(rest, _at(path, "items"), depth)
        if not isinstance(first, list) or not first:
            return ArrayOf(following)
        required = _count(schema, "minItems", 0)
        items = [
            self._inside(item, f"{_at(path, 'prefixItems')}[{number}]", depth)
            for number, item in enumerate(first)
        ]
        return Tuple(tuple(items), min(required, len(first)), None if following == NEVER else following)

    def _object(self, schema: Mapping[str, Any], path: str, depth: int) -> Type:
        others = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        declared = schema.get("properties")
        properties: dict[str, Property] = {}
        required = {name for name in _list(schema.get("required")) if isinstance(name, str)}
        if isinstance(declared, dict):
            for name, part in declared.items():
                if not self._spend(path):
                    break
                found = self._inside(part, _at(_at(path, "properties"), name), depth)
                if found != NEVER or name in required:
                    properties[name] = Property(name, found, name not in required, documented(part))
        indexes = self._indexes(schema, others, path, depth)
        plain = next((index.type for index in indexes if not index.prefix), UNKNOWN)
        for name in sorted(required - properties.keys()):
            properties[name] = Property(name, plain, optional=False)
        named = schema.get("propertyNames")
        if isinstance(named, dict) and isinstance(named.get("enum"), list) and not declared:
            allowed = [name for name in named["enum"][:ENUM_VALUES_MAX] if isinstance(name, str)]
            return Object(tuple(Property(name, plain, name not in required) for name in allowed))
        if properties or indexes or _is_never(others):
            return Object(tuple(properties.values()), tuple(indexes))
        if declared == {} and self.direction == "in":
            return Object(())
        return ANY_OBJECT

    def _indexes(self, schema: Mapping[str, Any], others: Any, path: str, depth: int) -> list[Index]:
        found: dict[str, list[Type]] = {}
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict):
            for pattern, part in patterns.items():
                prefix = _PREFIX.fullmatch(pattern)
                covers = re.sub(r"\\(.)", r"\1", prefix[1]) if prefix else ""
                kind = self._inside(part, _at(_at(path, "patternProperties"), pattern), depth)
                found.setdefault(covers, []).append(kind)
        if (others is True or isinstance(others, dict)) and not _is_never(others):
            kind = self._inside(others, _at(path, "additionalProperties"), depth)
            found.setdefault("", []).append(kind)
        if len(found) > PATTERNS_MAX:
            self._warn(path, f"{len(found):,} patterns are typed as one (at most {PATTERNS_MAX})")
            return [Index("", UNKNOWN)]
        return [Index(prefix, union(types)) for prefix, types in found.items()]

    def _reference(self, reference: str, path: str, depth: int) -> Type:
        try:
            name, target = self._references.resolve(reference)
        except UnresolvedRef as error:
            self._warn(path, f"{error}; it is typed `unknown`, and not checked")
            return UNKNOWN
        if name in self._heads:
            self._warn(path, f"{reference[:200]!r} leads back to itself; it is typed `unknown`")
            return UNKNOWN
        if name not in self._targets:
            alias = Alias(self.names(reference.rsplit("/", 1)[-1] if "/" in reference else "Self"))
            self._targets[name] = self._by_alias[alias.name] = _Target(name, alias, target)
            self._waiting.append(self._targets[name])
        found = self._targets[name]
        if self._heads:
            self._settle(found, depth + 1)
        return found.alias

    def _settle(self, target: _Target, depth: int) -> None:
        """Compile what an alias stands for, unless that has begun."""
        if target.begun:
            return
        target.begun = True
        heads, self._heads = self._heads, (*self._heads, target.name)
        try:
            self.aliases[target.alias.name] = self._schema(target.schema, target.name, depth)
        finally:
            self._heads = heads
        if doc := documented(target.schema, at_most="description"):
            self.docs[target.alias.name] = doc

    def _expanded(self, found: Type, depth: int) -> Type:
        """What an alias stands for, if that is known or can be."""
        seen: set[str] = set()
        while isinstance(found, Alias) and found.name not in seen:
            seen.add(found.name)
            target = self._by_alias.get(found.name)
            if target is not None and target.name not in self._heads:
                self._settle(target, depth + 1)
            found = self.aliases.get(found.name, found)
        return found


_KINDS: dict[type, Type] = {str: STRING, int: NUMBER, float: NUMBER, bool: BOOLEAN, type(None): NULL}


def _is_never(schema: Any) -> bool:  # `{"not": {}}` is how schemas made of Go's types say `false`
    return schema is False or (isinstance(schema, dict) and schema.get("not") in ({}, True))


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _count(schema: Mapping[str, Any], word: str, otherwise: int) -> int:
    count = schema.get(word, otherwise)
    return count if isinstance(count, int) else int(count) if isinstance(count, float) else otherwise


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
