"""Host tools: Python functions, what the server must know of them, and how they are called.

A function's parameters become the closed JSON Schema of its input; a parameter `ctx` is never part of it.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Annotated, Any, NotRequired, TypeVar, overload

import orjson
import pydantic_core
from pydantic import BaseModel, ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic import ValidationError as PydanticValidationError
from typing_extensions import TypedDict, is_typeddict

from rewind._context import Deferred, ToolContext
from rewind._errors import ConfigurationError, ToolError
from rewind._schema import closed_schema, plain_schema
from rewind._types import Duration, duration_ms

F = TypeVar("F", bound=Callable[..., Any])
_UNTYPED: tuple[Any, ...] = (inspect.Signature.empty, Any, dict, list, object, Mapping, Sequence)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One host tool. Calling it calls the function, so a decorated function still works as one."""

    name: str
    handler: Callable[..., Any]
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    """What the toolset pins beside the schemas: approval, idempotent, retry, timeout, ..."""
    wants_ctx: bool = False
    is_async: bool = False
    _input: TypeAdapter[Any] | None = None
    _by_keyword: bool = False
    _output: TypeAdapter[Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def declaration(self) -> dict[str, Any]:
        """The tool as `POST /v1/toolsets` takes it."""
        declared: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }
        if self.output_schema is not None:
            declared["output_schema"] = self.output_schema
        return {**declared, **self.policy}

    def invocation(self, args: Any, ctx: ToolContext) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the function for one call; ToolError `invalid_arguments` when they don't fit its types."""
        if self._input is not None:
            try:
                args = self._input.validate_python(args)
            except PydanticValidationError as error:
                raise ToolError(readable_validation(error), code="invalid_arguments") from error
        keywords: dict[str, Any] = {"ctx": ctx} if self.wants_ctx else {}
        return ((), {**args, **keywords}) if self._by_keyword else ((args,), keywords)

    def encode_result(self, result: Any) -> bytes:
        """JSON text of what the function returned; ToolError `invalid_result` when it has none."""
        try:
            if self._output is not None:
                return self._output.dump_json(
                    self._output.validate_python(result), by_alias=True, warnings=False
                )
            return encode_json(result)
        except PydanticValidationError as error:
            raise ToolError(readable_validation(error), code="invalid_result") from error
        except (TypeError, ValueError) as error:
            raise ToolError(f"the result is no JSON: {error}", code="invalid_result") from error


AnyTool = Tool | Callable[..., Any]


@overload
def tool(function: F, /) -> Tool: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    idempotent: bool | None = None,
    approval: bool | Mapping[str, Any] | None = None,
    retry: Mapping[str, Any] | None = None,
    timeout: Duration | None = None,
    queue_timeout: Duration | None = None,
    concurrency: Mapping[str, Any] | None = None,
    rate: Mapping[str, Any] | None = None,
) -> Callable[[F], Tool]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    idempotent: bool | None = None,
    approval: bool | Mapping[str, Any] | None = None,
    retry: Mapping[str, Any] | None = None,
    timeout: Duration | None = None,
    queue_timeout: Duration | None = None,
    concurrency: Mapping[str, Any] | None = None,
    rate: Mapping[str, Any] | None = None,
) -> Tool | Callable[[F], Tool]:
    """Make a function a host tool: `@tool` or `@tool(name="github.list_issues", idempotent=True)`.

    Name, description and schemas come from the function: its name, its docstring, its type hints. With
    `input_schema` it gets the call's arguments as one dict, unconverted. A parameter `ctx: ToolContext` is no argument.

    - `idempotent`: a call whose outcome is lost is made again, with the same `ctx.idempotency_key`; else the script
      gets `OutcomeUnknownError`.
    - `approval`: True, or `{"expires": "2d"}`: each call waits for a person; nobody in time is a refusal.
    - `retry`: `{"attempts": 3, "backoff": "1s", "max": "1m"}`, after failures that do not say `retryable=False`.
    - `timeout`: of a call, from when a worker takes it; `queue_timeout`: until one does.
    - `concurrency`: `{"limit": 5, "key": "customer"}`, calls at once (for each value of that argument);
      `rate`: `{"limit": 10, "per": "1m"}`, calls that begin.
    """
    policy = {
        "idempotent": idempotent,
        "approval": approval or None,
        "retry": retry,
        "timeout": None if timeout is None else duration_ms(timeout),
        "queue_timeout": None if queue_timeout is None else duration_ms(queue_timeout),
        "concurrency": concurrency,
        "rate": rate,
    }

    def make(target: F) -> Tool:
        return build_tool(
            target,
            name=name,
            description=description,
            input_schema=input_schema,
            output_schema=output_schema,
            policy={key: value for key, value in policy.items() if value is not None},
        )

    return make if function is None else make(function)


def build_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
) -> Tool:
    """Describe a function as a tool; ConfigurationError says what in its signature can't be."""
    tool_name: str = name or str(getattr(function, "__name__", ""))
    if not tool_name or tool_name == "<lambda>":
        raise ConfigurationError("a tool needs a name: @tool(name=...)")
    parameters, hints = _signature(function, tool_name)
    wants_ctx = any(_is_ctx(p, hints) for p in parameters)
    arguments = [p for p in parameters if not _is_ctx(p, hints)]
    adapter: TypeAdapter[Any] | None = None
    by_keyword = False
    try:
        if input_schema is None:
            by_keyword = not _takes_one_object(arguments, hints)
            adapter = TypeAdapter(
                _keywords_type(arguments, hints, tool_name) if by_keyword else hints[arguments[0].name]
            )
            schema = closed_schema(adapter.json_schema(), _defaults(arguments) if by_keyword else {})
        else:
            schema = dict(input_schema)
        output = (
            None
            if output_schema is not None
            else _output_adapter(hints.get("return", inspect.Signature.empty))
        )
        declared_output = None if output is None else plain_schema(output.json_schema(mode="serialization"))
    except (PydanticUserError, PydanticSchemaGenerationError) as error:
        reason = str(error).split("\n")[0]
        raise ConfigurationError(
            f"tool {tool_name}: its types can't be described as JSON: {reason}"
        ) from error
    return Tool(
        name=tool_name,
        handler=function,
        description=description if description is not None else inspect.cleandoc(function.__doc__ or ""),
        input_schema=schema,
        output_schema=dict(output_schema) if output_schema is not None else declared_output,
        policy=policy or {},
        wants_ctx=wants_ctx,
        is_async=inspect.iscoroutinefunction(inspect.unwrap(function)),
        _input=adapter,
        _by_keyword=by_keyword,
        _output=output,
    )


def as_tool(item: AnyTool) -> Tool:
    return item if isinstance(item, Tool) else build_tool(item)


def declare(item: AnyTool | Mapping[str, Any]) -> dict[str, Any]:
    return dict(item) if isinstance(item, Mapping) else as_tool(item).declaration()


def encode_json(value: Any) -> bytes:
    """JSON as JavaScript would write it: NaN is null, models and dates as text; refuses what has no JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return pydantic_core.to_json(value, inf_nan_mode="null", by_alias=True)


def readable_validation(error: PydanticValidationError) -> str:
    """`path: message` of each problem, in one line."""
    problems = []
    for item in error.errors(include_url=False, include_context=False):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]).lstrip(
            "."
        )
        problems.append(f"{path}: {item['msg']}" if path else item["msg"])
    return "; ".join(problems)


def _signature(function: Callable[..., Any], name: str) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(f"tool {name}: its signature can't be read: {error}") from error
    for parameter in parameters:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            raise ConfigurationError(
                f"tool {name}: parameter {parameter} can't be part of a JSON object; give it a name, "
                "or take one dict and pass input_schema="
            )
    return parameters, hints


def _is_ctx(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    return parameter.name == "ctx" or hints.get(parameter.name) is ToolContext


def _takes_one_object(arguments: list[inspect.Parameter], hints: dict[str, Any]) -> bool:
    if len(arguments) != 1:
        return False
    kind = hints.get(arguments[0].name)
    if typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    return isinstance(kind, type) and (
        issubclass(kind, BaseModel) or is_typeddict(kind) or is_dataclass(kind)
    )


def _keywords_type(arguments: list[inspect.Parameter], hints: dict[str, Any], name: str) -> Any:
    members = {
        p.name: hints.get(p.name, Any) if p.default is p.empty else NotRequired[hints.get(p.name, Any)]
        for p in arguments
    }
    make: Any = TypedDict  # a checker wants literal members; these come from the signature
    kind = make(f"{name} arguments", members)
    kind.__pydantic_config__ = ConfigDict(extra="forbid")
    return kind


def _defaults(arguments: list[inspect.Parameter]) -> dict[str, Any]:
    """Defaults that JSON can show; the function applies them itself."""
    kinds = (str, int, float, bool, types.NoneType)
    return {p.name: p.default for p in arguments if p.default is not p.empty and isinstance(p.default, kinds)}


def _output_adapter(annotation: Any) -> TypeAdapter[Any] | None:
    """Of the declared result; None when there is none, or one that says nothing about the shape."""
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        members = tuple(member for member in typing.get_args(annotation) if member is not Deferred)
        annotation = typing.Union[members] if members else Any  # noqa: UP007 - the members are known at run time only
    if annotation is Deferred or any(annotation is untyped for untyped in _UNTYPED):
        return None
    return TypeAdapter(types.NoneType if annotation is None else annotation)
