"""The fields that a body may have, for whoever named another: a model that is told writes the right one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from fastapi import Request
from pydantic import BaseModel

from sandbox.compiler.near import nearest

LISTED_MAX = 16


def no_such_field(request: Request, path: Sequence[str | int]) -> str:
    """What to say of an unknown field at this path of the request's body."""
    names = sorted(_names(_body_type(request), path))
    if not names or not path:
        return "There is no such field."
    near = nearest(str(path[-1]), names)
    if near:
        return f"There is no such field: did you mean {' or '.join(f'`{name}`' for name in near)}?"
    listed = ", ".join(names[:LISTED_MAX]) + (" …" if len(names) > LISTED_MAX else "")
    return f"There is no such field; there are: {listed}."


def _body_type(request: Request) -> Any:
    body = getattr(request.scope.get("route"), "body_field", None)
    return None if body is None else body.field_info.annotation


def _names(annotation: Any, path: Sequence[str | int]) -> set[str]:
    """Names in the objects that hold the last step of the path, whichever of a union they are."""
    found: set[str] = set()
    for model in _models(annotation):
        fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        if len(path) <= 1:
            found.update(fields)
        else:
            rest = [step for step in path[1:] if not isinstance(step, int)]
            found |= _names(fields.get(str(path[0])), rest)
    return found


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models within an annotation: of a union, a list, a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    parts: Iterable[Any] = get_args(annotation)
    for part in parts:
        yield from _models(part)
