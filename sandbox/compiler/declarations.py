"""A pinned toolset as TypeScript: the declarations that scripts are checked against.

The reader of these texts is a language model: everything that it must know to call a tool stands at the tool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.compiler.ts_names import TypeNames, pascal
from sandbox.compiler.ts_text import block, comment, key
from sandbox.compiler.typed_tools import TypedTool, typed_tools

WORKFLOWS, START = "workflows.", ".start"
"""`workflows.onboard` is called to wait for its result, `workflows.onboard.start` is its `start`."""

_HEADER = "// What this toolset offers to scripts. Made by Rewind from the tools' schemas.\n"
_IMPORTS = '  import type { CallOptions, Duration } from "rewind";\n  export {};\n'
_HTTP = """  export interface HttpInit {
    headers?: Record<string, string>;
    query?: Record<string, string | number | boolean | null | undefined | (string | number | boolean)[]>;
    /** Body: one of `json`, `text`, `base64`. */
    json?: unknown;
    text?: string;
    base64?: string;
    timeout?: Duration;
  }
  export interface HttpRequest extends HttpInit {
    method?: string;
    url: string;
  }
  export interface HttpAnswer {
    status: number;
    /** Whether the status is 200 to 299. */
    ok: boolean;
    headers: Record<string, string>;
    json: any;
    text: string;
    /** Of a body that is no text. */
    base64?: string;
  }
  export interface HttpTools {
    /** Answers of every status are results; no answer at all throws ToolError `unreachable`. */
    request(request: HttpRequest, options?: CallOptions): Promise<HttpAnswer>;
    get(url: string, init?: HttpInit): Promise<HttpAnswer>;
    post(url: string, init?: HttpInit): Promise<HttpAnswer>;
    put(url: string, init?: HttpInit): Promise<HttpAnswer>;
    patch(url: string, init?: HttpInit): Promise<HttpAnswer>;
    delete(url: string, init?: HttpInit): Promise<HttpAnswer>;
  }
  export const http: HttpTools;
"""


@dataclass(frozen=True, slots=True)
class Declarations:
    """`warnings` name tool and path of what could not be typed as its schema says."""

    text: str
    warnings: tuple[str, ...]


def declarations(tools: Sequence[Mapping[str, Any]], *, http: bool = False) -> str:
    """The text of `rewind-tools.d.ts` for pinned tools (`app/toolsets/definition.py` says what they have)."""
    return declare(tools, http=http).text


def declare(tools: Sequence[Mapping[str, Any]], *, http: bool = False) -> Declarations:
    """Declare `rewind:tools` and `rewind:workflows`; whatever the schemas are, the text compiles."""
    warnings: list[str] = []
    return Declarations(declared(typed_tools(tools, warnings), http=http), tuple(warnings))


def declared(tools: Sequence[TypedTool], *, http: bool) -> str:
    """The text for tools that are typed already."""
    plain = [tool for tool in tools if not tool.name.startswith(WORKFLOWS)]
    workflows = [tool for tool in tools if tool.name.startswith(WORKFLOWS)]
    parts = [_HEADER, 'declare module "rewind:tools" {\n', _IMPORTS, *_tools(plain), _HTTP if http else ""]
    parts += ["}\n", 'declare module "rewind:workflows" {\n', _IMPORTS, *_workflows(workflows), "}\n"]
    return "".join(parts)


def _tools(tools: Sequence[TypedTool]) -> list[str]:
    names = TypeNames(name for tool in tools for name in tool.type_names())
    parts: list[str] = []
    groups: dict[str, list[TypedTool]] = {}
    for tool in tools:
        parts += _types(tool)
        if tool.group is None:
            parts.append(f"{comment(tool.description, '  ')}  export function {signature(tool)};\n")
        else:
            groups.setdefault(tool.group, []).append(tool)
    for group, members in groups.items():
        interface = names.fresh(f"{pascal(group)}Tools")
        parts.append(f"  export interface {interface} {{\n")
        parts += [f"{comment(tool.description, '    ')}    {signature(tool)};\n" for tool in members]
        parts.append(f"  }}\n  export const {group}: {interface};\n")
    return parts


def _types(tool: TypedTool) -> list[str]:
    parts = []
    for schema in (tool.args, tool.result):
        if schema is None:
            continue
        for name, body in ((schema.name, schema.type), *schema.aliases.items()):
            doc = comment(schema.docs.get(name, ()), "  ")
            parts.append(f"{doc}  export type {name} = {block(body, '  ')};\n")
    return parts


def signature(tool: TypedTool) -> str:
    result = "any" if tool.result is None else tool.result.name
    given = f"args{'?' if tool.optional else ''}: {tool.args.name}"
    return (
        f"{key(tool.member) if tool.group else tool.name}({given}, options?: CallOptions): Promise<{result}>"
    )


def _workflows(tools: Sequence[TypedTool]) -> list[str]:
    parts: list[str] = []
    for tool in tools:
        name = tool.member
        if name.endswith(START):
            continue
        result = "any" if tool.result is None else tool.result.name
        given = f"input{'?' if tool.optional else ''}: {tool.args.name}"
        parts += _types(tool)
        parts.append(f"{comment(tool.description, '  ')}  export const {name}: {{\n")
        parts.append(f"    ({given}, options?: CallOptions): Promise<{result}>;\n")
        parts.append("    /** Starts the run and does not wait for it. */\n")
        parts.append(f"    start({given}): Promise<{{ id: string }}>;\n  }};\n")
    return parts
