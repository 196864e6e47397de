"""The servers of toolsets: asked for their tools when a toolset is pinned, found again when a call is made."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
from pydantic import ValidationError

from app.dispatcher.endpoints import Endpoint, SecretMissing, ServerSpec
from app.dispatcher.http_request import HttpSpec
from app.dispatcher.mcp import ServerFailed, ServerRefused, Servers
from app.dispatcher.mcp_http import Trouble
from app.dispatcher.redaction import Redactor
from app.errors import ToolsetInvalid
from app.toolsets.definition import Definition, refuse
from app.toolsets.mcp_tools import spec_of
from app.toolsets.repository import ToolsetRepository
from app.toolsets.schemas import McpBody, ToolsetBody
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Digest, NamespaceId, OrganizationId
from tenancy.errors import NotFound
from tenancy.principals import Principal
from tenancy.secrets import SecretBox, Secrets
from tenancy.service import Tenancy

if TYPE_CHECKING:
    import mcp_types as types

CACHE_MAX = 1_000
_ADVICE = {
    Trouble.UNREACHABLE: "see that it runs, and that this deployment reaches its URL",
    Trouble.REFUSED: "a deployment lists the private addresses that it reaches in REWIND_EGRESS_ALLOW",
}
_ADVICE_BY_STATUS = {
    401: "name the secret with its credential in `auth` or `headers`",
    403: "name the secret with its credential in `auth` or `headers`, one that may list tools",
    404: "see that the path of its URL is right",
    405: "see that the path of its URL is the one for MCP, which is spoken by POST",
}


@dataclass(frozen=True, slots=True)
class ToolsetServers:
    """`fallback`: the organization's secrets are used where a namespace has none of that name."""

    specs: dict[str, ServerSpec]
    fallback: bool
    http: HttpSpec | None = None


class ToolServers:
    def __init__(
        self,
        *,
        repository: ToolsetRepository,
        servers: Servers,
        secrets: Secrets,
        tenancy: Tenancy,
        box: SecretBox,
    ) -> None:
        self._repository = repository
        self._servers = servers
        self._secrets = secrets
        self._tenancy = tenancy
        self._box = box
        self._known: dict[tuple[OrganizationId, str, str], ToolsetServers] = {}

    async def list_tools(self, principal: Principal, body: ToolsetBody) -> "list[list[types.Tool]]":
        """What each server of the toolset lists. ToolsetInvalid names every server that does not answer."""
        asked = await asyncio.gather(
            *(self._list(principal, server, fallback=body.secrets != "namespace") for server in body.mcp)
        )
        errors = [
            FieldError(f"mcp[{index}]", "server_failed", f"The server {server.name!r}: {answer}.")
            for index, (server, answer) in enumerate(zip(body.mcp, asked, strict=True))
            if isinstance(answer, str)
        ]
        refuse(errors)
        return [answer for answer in asked if not isinstance(answer, str)]

    async def _list(self, principal: Principal, body: McpBody, *, fallback: bool) -> "list[types.Tool] | str":
        """The tools, or what went wrong."""
        namespace = None
        if body.pin_as is not None:
            pinned = await self._tenancy.namespace(principal, body.pin_as)
            if not pinned.exists:
                raise NotFound(
                    f"There is no namespace {body.pin_as!r}: `pin_as` names one that has the secrets."
                )
            namespace = pinned.id
        spec = spec_of(body)
        if namespace is None and not fallback and spec.secrets:
            return "its secrets are those of namespaces: say in `pin_as` whose are used to list its tools"
        values = await self._secrets.resolve(
            principal.organization, namespace, spec.secrets, fallback=fallback
        )
        try:
            endpoint = spec.endpoint(values)
        except SecretMissing as error:
            return str(error)
        try:
            listed = await self._servers.list_tools(endpoint)
            redactor = Redactor(values).also(self.shown(endpoint))
            return [_redacted(tool, redactor) for tool in listed]
        except (ServerFailed, ServerRefused) as error:
            said = Redactor(values).also(self.shown(endpoint)).message(str(error))
            return said + _advice(error)
        except TimeoutError:
            return "it did not list its tools in time"
        except ValidationError:
            return "its list of tools is not what MCP says"

    def seal(
        self, organization: OrganizationId, body: ToolsetBody, digest: Digest, servers: Definition
    ) -> bytes | None:
        """What is kept of the servers: where calls go, and what was declared, for looking at them again."""
        if not servers:
            return None
        kept = {**servers, "declared": body.model_dump(mode="json", exclude_unset=True)}
        return self._box.seal(orjson.dumps(kept), _place(organization, body.name, digest))

    async def declared(self, organization: OrganizationId, name: str, digest: Digest) -> ToolsetBody | None:
        """What a version with servers was declared as; None: it has none. Errors: SealBroken, Unavailable."""
        sealed = await self._repository.find_servers(organization, name, digest)
        if sealed is None:
            return None
        stored = orjson.loads(self._box.open(sealed, _place(organization, name, digest)))
        return ToolsetBody.model_validate(stored["declared"])

    async def endpoint(
        self, organization: OrganizationId, toolset: tuple[str, Digest], server: str, namespace: NamespaceId
    ) -> tuple[Endpoint, Redactor]:
        """Where a call goes, with the secrets of its run's namespace, and what takes those out of answers.

        Errors: SecretMissing, SealBroken, Unavailable; ToolsetInvalid when the version has no such server.
        """
        known = await self._load(organization, *toolset)
        spec = known.specs.get(server)
        if spec is None:
            raise ToolsetInvalid(f"The toolset {toolset[0]!r} has no server {server!r}.")
        values = await self._secrets.resolve(organization, namespace, spec.secrets, fallback=known.fallback)
        endpoint = spec.endpoint(values)
        return endpoint, Redactor(values)

    async def http(
        self, organization: OrganizationId, toolset: tuple[str, Digest], namespace: NamespaceId
    ) -> tuple[HttpSpec, dict[str, str], Redactor]:
        """What `http` may reach, with the secrets of the run's namespace.

        Errors: SealBroken, Unavailable; ToolsetInvalid when the version has no `http`.
        """
        known = await self._load(organization, *toolset)
        if known.http is None:
            raise ToolsetInvalid(f"The toolset {toolset[0]!r} has no http.")
        values = await self._secrets.resolve(
            organization, namespace, known.http.secrets, fallback=known.fallback
        )
        return known.http, values, Redactor(values)

    def shown(self, endpoint: Endpoint) -> dict[str, str]:
        """Access tokens that were presented to a server, under names that say what they are."""
        tokens = self._servers.tokens_shown(endpoint)
        return {f"access token {number}": token for number, token in enumerate(tokens, start=1)}

    async def _load(self, organization: OrganizationId, name: str, digest: Digest) -> ToolsetServers:
        key = (organization, name, digest)
        known = self._known.get(key)
        if known is None:
            sealed = await self._repository.find_servers(organization, name, digest)
            if sealed is None:
                return ToolsetServers({}, fallback=True)
            stored = orjson.loads(self._box.open(sealed, _place(organization, name, digest)))
            specs = {server: ServerSpec.from_json(spec) for server, spec in stored["mcp"].items()}
            http = HttpSpec.from_json(stored["http"]) if "http" in stored else None
            known = ToolsetServers(specs, stored["fallback"], http)
            if len(self._known) >= CACHE_MAX:
                self._known.clear()
            self._known[key] = known
        return known


def _redacted(tool: "types.Tool", redactor: Redactor) -> "types.Tool":
    """A tool whose texts do not say a secret that its server was shown."""
    fields = ("name", "title", "description", "input_schema", "output_schema")
    return tool.model_copy(update={field: redactor.value(getattr(tool, field)) for field in fields})


def _place(organization: OrganizationId, name: str, digest: str) -> str:
    return f"servers/{organization}/{name}/{digest}"


def _advice(error: ServerFailed | ServerRefused) -> str:
    """What whoever registers the toolset can do about it, where that is known."""
    if isinstance(error, ServerRefused):
        return ""
    failure = error.failure
    found = _ADVICE_BY_STATUS.get(failure.status) or _ADVICE.get(failure.trouble)
    return f"; {found}" if found else ""
