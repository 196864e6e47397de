"""TypeScript types as values: what JSON Schemas are compiled to, and how two of them are combined.

Every type is immutable and compared by structure; documentation does not count.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sandbox.journal.ids import Json


@dataclass(frozen=True, slots=True)
class Word:
    """A keyword: `string number boolean null unknown never any`."""

    text: str


@dataclass(frozen=True, slots=True)
class Literal:
    """One string, number or boolean. `key` keeps 1 and true apart, which Python holds for equal."""

    value: str | int | float | bool = field(compare=False)
    key: str


@dataclass(frozen=True, slots=True)
class Alias:
    """A named type of the same module."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayOf:
    item: "Type"


@dataclass(frozen=True, slots=True)
class Tuple:
    """The first `required` items must be there; `rest` None: nothing may follow."""

    items: tuple["Type", ...]
    required: int
    rest: "Type | None"


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    type: "Type"
    optional: bool
    doc: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """What properties without a name of their own may be; `prefix` "": all of them."""

    prefix: str
    type: "Type"


@dataclass(frozen=True, slots=True)
class Object:
    """`bare`: nothing was said of its properties, so it takes nothing away from what it is combined with."""

    properties: tuple[Property, ...]
    indexes: tuple[Index, ...] = ()
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Union:
    members: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Both:
    """An intersection that could not be merged."""

    members: tuple["Type", ...]


Type = Word | Literal | Alias | ArrayOf | Tuple | Object | Union | Both

STRING, NUMBER, BOOLEAN, NULL = Word("string"), Word("number"), Word("boolean"), Word("null")
UNKNOWN, NEVER, ANY = Word("unknown"), Word("never"), Word("any")
ANY_OBJECT = Object((), (Index("", UNKNOWN),), bare=True)
MERGED_SIZE_MAX = 400
"""Named parts that combining unions with what stands beside them may make; above, they stay an intersection."""

COMBINATIONS_MAX = 2_000
"""TypeScript multiplies an intersection of unions out, and gives up at 100,000; what would make more is left out."""
ALIAS_CHOICES = 12
"""What a type that is not known yet counts for."""


def literal_of(value: Json) -> Type:
    """The type that has this JSON value alone. Numbers beyond what JavaScript holds become `number`."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return Literal(value, str(value).lower())
    if isinstance(value, str):
        return Literal(value, f'"{value}')
    if isinstance(value, int | float):
        if value in {float("inf"), float("-inf")} or abs(value) > 2**53:
            return NUMBER
        return Literal(value, repr(value + 0.0))
    if isinstance(value, list):
        return Tuple(tuple(literal_of(item) for item in value), len(value), None)
    properties = tuple(Property(name, literal_of(item), optional=False) for name, item in value.items())
    return Object(properties)


def union(types: Iterable[Type]) -> Type:
    """Without repeats, flattened; `unknown` absorbs, `never` vanishes, `null` stands last."""
    found: dict[Type, None] = {}
    for item in types:
        found.update(dict.fromkeys(item.members if isinstance(item, Union) else (item,)))
    if UNKNOWN in found:
        return UNKNOWN
    found.pop(NEVER, None)
    words = {word.text for word in found if isinstance(word, Word)}
    kept = [item for item in found if not (isinstance(item, Literal) and _word_of(item) in words)]
    both = [item for item in kept if isinstance(item, Literal) and isinstance(item.value, bool)]
    if len(both) == 2:
        kept = [BOOLEAN if item is both[0] else item for item in kept if item is not both[1]]
    if NULL in kept:
        kept = [item for item in kept if item != NULL] + [NULL]
    if not kept:
        return NEVER
    return kept[0] if len(kept) == 1 else Union(tuple(kept))


def both(one: Type, other: Type) -> Type:
    """What is of both types, merged as far as TypeScript can say it without an intersection."""
    if one in (UNKNOWN, other):
        return other
    if other == UNKNOWN:
        return one
    if NEVER in (one, other):
        return NEVER
    if isinstance(one, Union) or isinstance(other, Union):
        return _distributed(one, other)
    if isinstance(one, Both) or isinstance(other, Both) or isinstance(one, Alias) or isinstance(other, Alias):
        return _intersection(one, other)
    if isinstance(one, Object) and isinstance(other, Object):
        return _merged(one, other)
    if isinstance(one, ArrayOf | Tuple) and isinstance(other, ArrayOf | Tuple):
        return _lists(one, other)
    if isinstance(one, Literal) and other == Word(_word_of(one)):
        return one
    if isinstance(other, Literal) and one == Word(_word_of(other)):
        return other
    return NEVER


def substituted(item: Type, table: Mapping[str, Type]) -> Type:
    """The type with these aliases replaced; what replaces them is taken as it is."""
    match item:
        case Alias(name):
            return table.get(name, item)
        case ArrayOf(inner):
            return ArrayOf(substituted(inner, table))
        case Tuple(items, required, rest):
            after = None if rest is None else substituted(rest, table)
            return Tuple(tuple(substituted(part, table) for part in items), required, after)
        case Object(properties, indexes, bare):
            return Object(
                tuple(replace(part, type=substituted(part.type, table)) for part in properties),
                tuple(replace(index, type=substituted(index.type, table)) for index in indexes),
                bare,
            )
        case Union(members):
            return union(substituted(member, table) for member in members)
        case Both(members):
            return Both(tuple(substituted(member, table) for member in members))
        case _:
            return item


def aliases_in(item: Type) -> Iterator[str]:
    """Names of the aliases that a type is written with, in order, each as often as it is there."""
    waiting = [item]
    while waiting:
        match waiting.pop():
            case Alias(name):
                yield name
            case ArrayOf(inner):
                waiting.append(inner)
            case Tuple(items, _, rest):
                waiting += reversed([*items, *([] if rest is None else [rest])])
            case Object(properties, indexes):
                waiting += reversed([part.type for part in properties] + [index.type for index in indexes])
            case Union(members) | Both(members):
                waiting += reversed(members)


def size_of(item: Type) -> int:
    """How many named parts a type is written with."""
    if isinstance(item, Object):
        return (
            1
            + sum(size_of(part.type) for part in item.properties)
            + sum(size_of(index.type) for index in item.indexes)
        )
    if isinstance(item, Union | Both):
        return 1 + sum(size_of(member) for member in item.members)
    if isinstance(item, Tuple):
        return 1 + sum(size_of(part) for part in item.items)
    return 1 + size_of(item.item) if isinstance(item, ArrayOf) else 1


def _word_of(item: Literal) -> str:
    if isinstance(item.value, bool):
        return "boolean"
    return "string" if isinstance(item.value, str) else "number"


def _distributed(one: Type, other: Type) -> Type:
    left = one.members if isinstance(one, Union) else (one,)
    right = other.members if isinstance(other, Union) else (other,)
    plain = all(isinstance(item, Word | Literal) for item in (*left, *right))
    if plain:
        return union(both(a, b) for a in left for b in right) if len(left) * len(right) <= 4_000_000 else one
    if len(left) * size_of(other) + len(right) * size_of(one) > MERGED_SIZE_MAX:
        return _intersection(one, other)
    return union(both(a, b) for a in left for b in right)


def _intersection(one: Type, other: Type) -> Type:
    members: dict[Type, None] = {}
    for item in (one, other):
        members.update(dict.fromkeys(item.members if isinstance(item, Both) else (item,)))
    combinations = 1
    for member in members:
        combinations *= _choices(member)
    if combinations > COMBINATIONS_MAX:
        return one
    return Both(tuple(members)) if len(members) > 1 else one


def _choices(item: Type) -> int:
    """How many types TypeScript makes of a member of an intersection."""
    if isinstance(item, Union):
        return sum(_choices(member) for member in item.members)
    if isinstance(item, Both):
        product = 1
        for member in item.members:
            product *= _choices(member)
        return product
    return ALIAS_CHOICES if isinstance(item, Alias) else 1


def _merged(one: Object, other: Object) -> Object:
    if one.bare or other.bare:
        return other if one.bare else one
    known = {part.name: part for part in one.properties}
    for part in other.properties:
        before = known.get(part.name)
        known[part.name] = (
            part
            if before is None
            else replace(
                before,
                type=both(before.type, part.type),
                optional=before.optional and part.optional,
                doc=before.doc or part.doc,
            )
        )
    indexes = {index.prefix: index for index in one.indexes}
    for index in other.indexes:
        first = indexes.get(index.prefix)
        indexes[index.prefix] = index if first is None else Index(index.prefix, both(first.type, index.type))
    return Object(tuple(known.values()), tuple(indexes.values()))


def _lists(one: ArrayOf | Tuple, other: ArrayOf | Tuple) -> Type:
    if isinstance(one, ArrayOf) and isinstance(other, ArrayOf):
        return ArrayOf(both(one.item, other.item))
    if isinstance(one, Tuple) and isinstance(other, ArrayOf):
        rest = None if one.rest is None else both(one.rest, other.item)
        return Tuple(tuple(both(item, other.item) for item in one.items), one.required, rest)
    if isinstance(one, ArrayOf) and isinstance(other, Tuple):
        return _lists(other, one)
    return _intersection(one, other)
