"""Public bug reports about tools of servers, rows O24 to O28: one fake server lists them all, and they are called."""

from typing import Any

from tests.app.dispatcher.test_loop import begin, call, dispatching, outcomes, pin
from tests.app.toolsets.test_declarations import declared
from tests.fixtures.api import Api
from tests.fixtures.mcp_versions import VersionServer, text_result
from tests.fixtures.typescript import type_check
from tests.fixtures.web_server import Asked, Reply, Stream, WebServer


def user(kind: str) -> dict[str, Any]:
    return {"type": "object", "title": "User", "properties": {"id": {"type": kind}}, "required": ["id"]}


def of_user(kind: str) -> dict[str, Any]:
    return {"type": "object", "title": "Args", "properties": {"user": user(kind)}, "required": ["user"]}


NODE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "next": {"$ref": "#"}},
    "required": ["name"],
}
PLACES = {
    "type": "object",
    "properties": {"at": {"$ref": "#/$defs/Place"}},
    "required": ["at"],
    "$defs": {"Place": {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "required": ["x"]}, "X": {"type": "number"}},
}  # fmt: skip
EVIL = "Ends */ here `and` ${there}\nand goes on"
LISTED: dict[str, dict[str, Any]] = {
    "text-user": {"inputSchema": of_user("string")},
    "number-user": {"inputSchema": of_user("number")},
    "list-nodes": {"inputSchema": NODE, "outputSchema": NODE},
    "evil": {"inputSchema": {"type": "object"}, "description": EVIL},
    "places": {"inputSchema": PLACES},
    "broken": {"inputSchema": {"type": "object", "properties": {"x": {"type": "nothing"}}}},
}
SCRIPT = """import { s0 } from "rewind:tools";
export default async function main() {
  await s0.text_user({ user: { id: "a" } });
  await s0.number_user({ user: { id: 1 } });
  const found = await s0.list_nodes({ name: "a", next: { name: "b", next: { name: "c" } } });
  await s0.evil({});
  await s0.places({ at: { x: 1 } });
  return found.next?.next?.name.length;
}"""
GIVEN = [
    ("text_user", {"user": {"id": "a"}}, {"user": {"id": 1}}),
    ("number_user", {"user": {"id": 1}}, {"user": {"id": "a"}}),
    ("list_nodes", {"name": "a", "next": {"name": "b"}}, {"name": "a", "next": {"nam": "b"}}),
    ("places", {"at": {"x": 1}}, {"at": {"x": "1"}}),
]


class Listing(VersionServer):
    def __init__(self) -> None:
        super().__init__("2025-06-18")
        self.tools = [{"name": name, **fields} for name, fields in LISTED.items()]

    def called(self, message: dict[str, Any]) -> Reply | Stream | None:
        said = {"structuredContent": message["params"]["arguments"]}
        return self.result(message, text_result("done", **said))


async def test_o24_o25_o26_o28_schemas_of_a_server_are_typed_and_checked(api: Api) -> None:
    """Equal titles, a circle, a description that ends comments, `$defs`, and one bad schema among them."""
    server = Listing()
    async with WebServer(server) as web, dispatching(api):
        pinned = await pin(api, f"{web.url}/mcp")
        said = "s0: the tool 'broken' is disabled: input_schema.properties.x.type: "
        assert [warning[: len(said)] for warning in pinned["warnings"]] == [said]
        assert [tool["original"] for tool in pinned["tools"] if "disabled" in tool] == ["broken"]
        text = await declared(api)
        assert "Ends *\\/ here `and` ${there}" in text
        assert type_check({"tools.d.ts": text, "script.ts": SCRIPT}) == []
        wrong = (
            SCRIPT.replace('id: "a"', "id: 2").replace("id: 1", 'id: "b"').replace("{ x: 1 }", '{ x: "1" }')
        )
        assert [found.line for found in type_check({"tools.d.ts": text, "script.ts": wrong})] == [3, 4, 7]

        run, puppet = await begin(api)
        for tool, right, bad in GIVEN:
            for args in (right, bad):
                await call(puppet, api, f"s0.{tool}", args)
        found = sorted(await outcomes(api, run, 2 * len(GIVEN)), key=lambda entry: entry["call"])
        codes = [entry["error"]["code"] if "error" in entry else None for entry in found]
        assert codes == [None, "invalid_arguments"] * len(GIVEN)
        assert found[4]["result"]["value"] == GIVEN[2][1]
    assert len(server.keys) == len(GIVEN)
    assert server.faults == []


async def test_o27_a_server_that_is_restarted_between_two_calls(api: Api) -> None:
    """It knows nothing of our session: a new handshake, and the second call done once."""
    running = Listing()

    def serve(asked: Asked) -> Reply | Stream | None:
        return running(asked)

    async with WebServer(serve) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.evil")
        await outcomes(api, run)
        running = Listing()
        await call(puppet, api, "s0.evil")
        found = await outcomes(api, run, 2)
        assert [entry["result"]["value"] for entry in found] == ["done", "done"]
        assert running.keys == [f"{run}/2"]
        assert running.methods == ["tools/call", "initialize", "notifications/initialized", "tools/call"]
