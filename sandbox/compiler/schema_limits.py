"""What a schema may cost the process that validates against it. Pure.

Schemas come from customers and from servers of others. One that is too large, too deep, or whose references
multiply must not stall a process that serves everybody.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from sandbox.compiler.schema_refs import References, UnresolvedRef
from sandbox.journal.canonical import CanonicalError, canonical_text

SCHEMA_BYTES_MAX = 256 * 1024
"""Of one schema, as canonical JSON."""
SCHEMA_DEPTH_MAX = 180
"""Objects and lists inside each other, in a schema."""
EVALUATIONS_MAX = 1_000_000
"""How often subschemas may be applied to the path to one part of a value, if every reference is followed."""
EXPLAINED_MAX = 5_000
"""The same for saying what is wrong with a value, where every branch that failed is kept."""
VALUE_DEPTH_MAX = 200
"""Of a value; a schema whose references multiply is used down to the depth that costs EVALUATIONS_MAX."""
STEPS_MAX = 300_000
"""Of the search for that depth; a schema for which they do not suffice is used as far as the search came."""

NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""U+0000 in canonical JSON, which jsonb cannot hold, and not a backslash before `u0000`."""
_SAME_PLACE = ("allOf", "anyOf", "oneOf")
_SAME_PLACE_ONE = ("if", "then", "else", "not")
_PARTS_BY_NAME = ("properties", "patternProperties")
_PARTS = ("items", "additionalProperties", "additionalItems", "unevaluatedItems", "unevaluatedProperties",
          "contains", "propertyNames")  # fmt: skip


def size_problem(schema: Any) -> str | None:
    """Say why a schema is not taken as it is; None when it may be."""
    if _too_deep(schema):
        return f"it is nested deeper than {SCHEMA_DEPTH_MAX} levels"
    try:
        text = canonical_text(schema, depth_max=SCHEMA_DEPTH_MAX + 1)
    except CanonicalError as error:
        return f"{error.path}: {error.message}" if error.path else error.message
    if len(text) > SCHEMA_BYTES_MAX:
        return f"it has {len(text):,} bytes; at most {SCHEMA_BYTES_MAX:,} are taken"
    return "it holds the character U+0000" if NUL.search(text) else None


def _too_deep(schema: Any) -> bool:
    level = [schema]
    for _ in range(SCHEMA_DEPTH_MAX):
        level = [part for item in level for part in _inside(item)]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def _inside(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return list(item.values())
    return item if isinstance(item, list) else []


class Bounds(NamedTuple):
    """How deep a value may be to be told what is wrong with it, and to be checked at all; VALUE_DEPTH_MAX: any.

    `evaluations`: how often subschemas are applied to the path to one part of such a value.
    """

    explained: int
    checked: int
    evaluations: int


def usable_depth(schema: Any) -> int:
    """How deep a value may be for validation against the schema to stay bounded; VALUE_DEPTH_MAX: any."""
    return bounds_of(schema).checked


def bounds_of(schema: Any) -> Bounds:
    """Level by level: what a value of one more level costs, from what the levels inside cost."""
    graph = _Graph(schema)
    costs = [1] * len(graph.parts)
    steps = 0
    explained: int | None = None
    most = 1
    for depth in range(VALUE_DEPTH_MAX):
        deeper = graph.deeper(costs)
        steps += len(costs)
        most = max(deeper)
        if most > EXPLAINED_MAX and explained is None:
            explained = depth
        if most > EVALUATIONS_MAX or steps > STEPS_MAX:
            return Bounds(depth if explained is None else explained, depth, most)
        if deeper == costs or not graph.shares:
            break
        costs = deeper
    return Bounds(VALUE_DEPTH_MAX if explained is None else explained, VALUE_DEPTH_MAX, most)


class _Graph:
    """The subschemas of a schema by number: which apply to the same place, and which to parts of it."""

    def __init__(self, root: Any) -> None:
        self._references = References(root)
        self._numbers: dict[int, int] = {}
        self.same: list[list[int]] = []
        self.parts: list[list[int]] = []
        self.shares = False
        """Whether any reference is followed; without them every subschema is applied once."""
        self._waiting: list[dict[str, Any]] = []
        self._number(root)
        while self._waiting:
            schema = self._waiting.pop()
            number = self._numbers[id(schema)]
            self.same[number] = [self._number(part) for part in self._same_place(schema)]
            self.parts[number] = [self._number(part) for part in _parts(schema)]

    def deeper(self, costs: list[int]) -> list[int]:
        """Costs with one level more; those of the same place are added up, of the parts the largest counts."""
        found: list[int | None] = [None] * len(costs)
        for number in range(len(costs)):
            self._cost(number, costs, found)
        return [cost or 1 for cost in found]

    def _cost(self, start: int, costs: list[int], found: list[int | None]) -> None:
        """Without recursion, since references may form long chains; a circle in one place counts once."""
        begun: set[int] = set()
        stack = [start]
        while stack:
            number = stack[-1]
            missing = [part for part in self.same[number] if found[part] is None and part not in begun]
            if found[number] is None and missing and number not in begun:
                begun.add(number)
                stack.extend(missing)
                continue
            stack.pop()
            if found[number] is None:
                inside = max((costs[part] for part in self.parts[number]), default=0)
                same = sum(found[part] or 1 for part in self.same[number])
                found[number] = min(1 + inside + same, EVALUATIONS_MAX + 1)

    def _number(self, schema: Any) -> int:
        known = self._numbers.get(id(schema)) if isinstance(schema, dict) else None
        if known is not None:
            return known
        self.same.append([])
        self.parts.append([])
        number = len(self.parts) - 1
        if isinstance(schema, dict):
            self._numbers[id(schema)] = number
            self._waiting.append(schema)
        return number

    def _same_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        for word in ("$ref", "$dynamicRef"):
            if isinstance(schema.get(word), str):
                try:
                    yield self._references.resolve(schema[word])[1]
                    self.shares = True
                except UnresolvedRef:
                    continue
        for word in _SAME_PLACE:
            yield from _inside(schema.get(word)) if isinstance(schema.get(word), list) else ()
        for word in _SAME_PLACE_ONE:
            if word in schema:
                yield schema[word]
        for word in ("dependentSchemas", "dependencies"):
            if isinstance(schema.get(word), dict):
                yield from (part for part in schema[word].values() if isinstance(part, dict | bool))


def _parts(schema: dict[str, Any]) -> Iterator[Any]:
    for word in _PARTS_BY_NAME:
        if isinstance(schema.get(word), dict):
            yield from schema[word].values()
    for word in _PARTS:
        part = schema.get(word)
        yield from part if isinstance(part, list) else [part] if isinstance(part, dict) else []
    if isinstance(schema.get("prefixItems"), list):
        yield from schema["prefixItems"]


def depth_of(value: Any, depth_max: int) -> int:
    """Levels of objects and lists in a value, counted up to `depth_max` + 1."""
    level, depth = [value], 0
    while depth <= depth_max:
        level = [part for item in level for part in _inside(item)]
        if not level:
            return depth
        depth += 1
    return depth
