"""`/docs`: the HTTP API for people, made from the OpenAPI document alone, without scripts and without other hosts."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from dashboard.web import template

Document = Mapping[str, Any]

METHODS = ("get", "post", "put", "patch", "delete")
ROOT_GROUP = "server"
_MARKS = re.compile(r"(`[^`]+`|(?<!\w)\*\w+\*(?!\w)|\n\n)")
_SENTENCE = re.compile(r"(?<=[.!?:;]) ")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    required: bool
    about: Markup


@dataclass(frozen=True, slots=True)
class Shape:
    """A body or an answer: the name of its schema (which has a place of its own on the page), or its type."""

    name: str | None
    type: str


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    about: Markup
    lead: Markup
    """Its first sentence, which stands beside the path."""
    scope: str | None
    parameters: tuple[Field, ...]
    body: Shape | None
    answers: tuple[tuple[str, Shape | None], ...]
    refusals: tuple[tuple[str, str], ...]


def reference_of(document: Callable[[], Document]) -> Callable[[], str]:
    """Return what makes the page: once, when it is asked for, as the document is."""
    made: list[str] = []

    def page() -> str:
        if not made:
            made.append(reference_page(document()))
        return made[0]

    return page


def reference_page(document: Document) -> str:
    """The whole page. Every schema that an operation names is a link within it."""
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                groups.setdefault(_group(path), []).append(_operation(path, method, methods[method]))
    schemas = document["components"]["schemas"]
    return template("reference.html").render(
        session=None,
        version=document["info"]["version"],
        about=_marked(document["info"]["description"]),
        groups=sorted(groups.items()),
        schemas=[(name, _fields(schema), _type(schema)) for name, schema in sorted(schemas.items())],
    )


def _group(path: str) -> str:
    parts = path.strip("/").split("/")
    return parts[1] if parts[0] == "v1" and len(parts) > 1 else ROOT_GROUP


def _operation(path: str, method: str, operation: Document) -> Operation:
    responses: Document = operation.get("responses", {})
    body = operation.get("requestBody", {}).get("content")
    taken = [(code, responses[code]) for code in sorted(responses) if code < "400"]
    refused = [(code, responses[code]) for code in sorted(responses) if code >= "400"]
    about = str(operation.get("description") or operation.get("summary") or "")
    return Operation(
        id=f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}",
        method=method.upper(),
        path=path,
        about=_marked(about),
        lead=_marked(_lead(about)),
        scope=operation.get("x-required-scope"),
        parameters=tuple(
            Field(
                f"{one['name']} ({one['in']})",
                _type(one.get("schema", {})),
                bool(one.get("required")),
                _marked(one.get("description", "")),
            )
            for one in operation.get("parameters", ())
        ),
        body=_shape(body),
        answers=tuple((code, _shape(answer.get("content"))) for code, answer in taken),
        refusals=tuple((code, answer["description"].replace("`", "")) for code, answer in refused),
    )


def _marked(text: str) -> Markup:
    """Descriptions are written as Markdown: its code and emphasis are shown as such, and paragraphs apart."""
    return Markup("").join(map(_piece, _MARKS.split(text.strip())))


def _piece(text: str) -> Markup:
    """A piece of a description, marked or not."""
    if text == "\n\n":
        return Markup("<br><br>")
    for mark, shown in (("`", Markup("<code>{}</code>")), ("*", Markup("<em>{}</em>"))):
        if len(text) > 2 and text[0] == text[-1] == mark:
            return shown.format(text[1:-1])
    return escape(text)


def _lead(about: str) -> str:
    """The first sentence, or what of it stands before a colon; a dot within a name or a number ends none."""
    first = _SENTENCE.split(about.strip().replace("\n", " "), maxsplit=1)[0].rstrip(":;")
    return first if first.endswith((".", "!", "?")) or not first else f"{first}."


def _shape(content: Document | None) -> Shape | None:
    if not content:
        return None
    kind, media = next(iter(content.items()))
    schema: Document = media.get("schema", {})
    name = str(schema["$ref"]).rsplit("/", 1)[-1] if "$ref" in schema else None
    return Shape(name, _type(schema) if kind == "application/json" else kind)


def _fields(schema: Document) -> tuple[Field, ...]:
    required = schema.get("required", ())
    return tuple(
        Field(name, _type(one), name in required, _marked(one.get("description", "")))
        for name, one in schema.get("properties", {}).items()
    )


def _type(schema: Document) -> str:
    """The schema as a type that a reader of TypeScript knows."""
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " | ".join(dict.fromkeys(_type(one) for one in schema[choice]))
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "enum" in schema:
        return " | ".join(repr(value) for value in schema["enum"])
    if "const" in schema:
        return repr(schema["const"])
    kind = schema.get("type")
    if kind == "array":
        inner = _type(schema.get("items", {}))
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"{{[name]: {_type(schema['additionalProperties'])}}}"
    return str(kind or "any")
