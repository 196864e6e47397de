"""Names of tools: what a tool is called in scripts, and back to what its owner calls it.

What is no identifier becomes `_` per character, and collisions get `_2`, `_3`; the pinned definition keeps
both names, so the mapping can be reversed.
"""

IDENTIFIER_CHARS_MAX = 64
NAME_CHARS_MAX = 128
_WORDS = """await break case catch class const continue debugger default delete do else enum export extends false
    finally for function if implements import in instanceof interface let new null package private protected
    public return static super switch this throw true try typeof undefined var void while with yield
    arguments eval NaN Infinity"""
RESERVED = frozenset(_WORDS.split())
TAKEN = frozenset({"http", "workflows", "tools", "then"})
"""Belong to the product, or would make a group a thenable."""
_NO_MEMBERS = frozenset({"then", "__proto__"})


def is_identifier(text: str) -> bool:
    return bool(text) and len(text) <= IDENTIFIER_CHARS_MAX and to_identifier(text) == text


def to_identifier(text: str) -> str:
    """Replace each character that cannot stand where it stands in an identifier."""
    return "".join(char if _fits(char, first=index == 0) else "_" for index, char in enumerate(text))


def group_problem(group: str) -> str | None:
    """Say why this cannot be the name of a group, or of a tool outside any group."""
    if not is_identifier(group):
        return f"{group[:80]!r} is no identifier of at most {IDENTIFIER_CHARS_MAX} characters"
    if group in RESERVED:
        return f"`{group}` is a reserved word of the language"
    if group in TAKEN or group == "__proto__":
        return f"`{group}` is taken by Rewind"
    return None


def split_name(original: str) -> tuple[str | None, str]:
    """`group.name` or `name`; further dots belong to the name."""
    group, dot, name = original.partition(".")
    return (group, name) if dot else (None, original)


def name_problem(original: str) -> str | None:
    """Say why a host tool cannot be called this."""
    if not original or len(original) > NAME_CHARS_MAX:
        return f"a tool's name has 1 to {NAME_CHARS_MAX} characters"
    group, name = split_name(original)
    if group is not None:
        if (problem := group_problem(group)) is not None:
            return problem
        if not name:
            return "nothing follows the dot"
        if name in _NO_MEMBERS:
            return f"a group cannot have a member `{name}`"
        return None
    return group_problem(to_identifier(name))


def script_names(originals: list[str]) -> list[str]:
    """Give each tool its name in scripts, in order: the first of equal ones keeps the plain name."""
    exact = {original for original in originals if _exact(original)}
    taken = set(exact)
    names = []
    for original in originals:
        group, name = split_name(original)
        head = "" if group is None else f"{group}."
        plain = head + to_identifier(name)
        mapped = plain
        number = 2
        while original not in exact and mapped in taken:
            mapped = f"{plain}_{number}"
            number += 1
        taken.add(mapped)
        names.append(mapped)
    return names


def _exact(original: str) -> bool:
    _, name = split_name(original)
    return to_identifier(name) == name


def _fits(char: str, *, first: bool) -> bool:
    return char in {"$", "_"} or (char if first else f"a{char}").isidentifier()
