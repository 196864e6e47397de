"""`AsyncRewind` and `Rewind`: one client, asynchronous and blocking."""

import contextlib
from collections.abc import Sequence
from typing import Any, Self

from rewind._async.account import AsyncAudit, AsyncKeys, AsyncUsage
from rewind._async.approvals import AsyncApprovals
from rewind._async.resources import AsyncNamespaces, AsyncTasks, AsyncTokens, AsyncToolsets
from rewind._async.runs import AsyncRuns
from rewind._async.scripts import AsyncScripts
from rewind._async.secrets import AsyncSecrets
from rewind._async.webhooks import AsyncWebhooks
from rewind._async.workflows import AsyncWorkflows
from rewind._config import Config
from rewind._core import AsyncCore, Call
from rewind._portal import Core, Portal
from rewind._retry import MAX_RETRIES
from rewind._sync.account import Audit, Keys, Usage
from rewind._sync.approvals import Approvals
from rewind._sync.resources import Namespaces, Tasks, Tokens, Toolsets
from rewind._sync.runs import Runs
from rewind._sync.scripts import Scripts
from rewind._sync.secrets import Secrets
from rewind._sync.webhooks import Webhooks
from rewind._sync.workflows import Workflows
from rewind._tools import AnyTool
from rewind.worker import Worker

ME = Call(method="GET", path="/v1/me")


class AsyncRewind:
    """Rewind's API. Safe for concurrent tasks of one event loop; close it with `aclose()` or `async with`.

    Every call also takes `timeout` (seconds), `max_retries`, `idempotency_key` and `extra_headers`.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        token: str | None = None,
        base_url: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        """Absent arguments come from REWIND_API_KEY, REWIND_TOKEN and REWIND_URL.

        `namespace` is the end user whose runs are meant, for an API key; a token has its own.
        """
        config = Config.resolve(
            api_key=api_key,
            token=token,
            base_url=base_url,
            namespace=namespace,
            timeout=timeout,
            max_retries=max_retries,
        )
        self._core = AsyncCore(config)
        self.runs = AsyncRuns(self._core)
        self.scripts = AsyncScripts(self._core)
        self.toolsets = AsyncToolsets(self._core)
        self.tokens = AsyncTokens(self._core)
        self.namespaces = AsyncNamespaces(self._core)
        self.secrets = AsyncSecrets(self._core)
        self.workflows = AsyncWorkflows(self._core)
        self.approvals = AsyncApprovals(self._core)
        self.webhooks = AsyncWebhooks(self._core)
        self.tasks = AsyncTasks(self._core)
        self.keys = AsyncKeys(self._core)
        self.usage = AsyncUsage(self._core)
        self.audit = AsyncAudit(self._core)

    async def me(self) -> dict[str, Any]:
        """Who this credential is, its scopes and limits."""
        answer: dict[str, Any] = (await self._core.call(ME, {})).data
        return answer

    def worker(
        self,
        *,
        tools: Sequence[AnyTool],
        toolset: str | None = None,
        namespace: str | None = None,
        max_slots: int = 10,
        lanes: int = 4,
        wait_s: float = 20.0,
        linger_ms: int = 0,
        drain_s: float = 30.0,
    ) -> Worker:
        """Serve host tools: `await client.worker(...)` until cancelled, or `async with client.worker(...):`.

        It takes calls of the tools in `tools`, of `toolset` (absent: of any) and of `namespace` (absent: the
        client's own; without one all that the credential reaches). `max_slots` calls run at the same time.
        """
        return Worker(
            self._core,
            tools=tools,
            toolset=toolset,
            namespace=namespace,
            max_slots=max_slots,
            lanes=lanes,
            wait_s=wait_s,
            linger_ms=linger_ms,
            drain_s=drain_s,
        )

    async def aclose(self) -> None:
        await self._core.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Rewind:
    """Rewind's API for blocking code, from any thread, also inside a running event loop."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        token: str | None = None,
        base_url: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        """Like AsyncRewind."""
        config = Config.resolve(
            api_key=api_key,
            token=token,
            base_url=base_url,
            namespace=namespace,
            timeout=timeout,
            max_retries=max_retries,
        )
        self._core = Core(AsyncCore(config), Portal())
        self.runs = Runs(self._core)
        self.scripts = Scripts(self._core)
        self.toolsets = Toolsets(self._core)
        self.tokens = Tokens(self._core)
        self.namespaces = Namespaces(self._core)
        self.secrets = Secrets(self._core)
        self.workflows = Workflows(self._core)
        self.approvals = Approvals(self._core)
        self.webhooks = Webhooks(self._core)
        self.tasks = Tasks(self._core)
        self.keys = Keys(self._core)
        self.usage = Usage(self._core)
        self.audit = Audit(self._core)

    def me(self) -> dict[str, Any]:
        """Who this credential is, its scopes and limits."""
        answer: dict[str, Any] = self._core.call(ME, {}).data
        return answer

    def worker(
        self,
        *,
        tools: Sequence[AnyTool],
        toolset: str | None = None,
        namespace: str | None = None,
        max_slots: int = 10,
        drain_s: float = 30.0,
    ) -> "BlockingWorker":
        """Serve host tools: `client.worker(...).run()` until Ctrl-C, or `with client.worker(...):`."""
        worker = Worker(
            self._core.inner,
            tools=tools,
            toolset=toolset,
            namespace=namespace,
            max_slots=max_slots,
            drain_s=drain_s,
        )
        return BlockingWorker(worker, self._core.portal)

    def close(self) -> None:
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingWorker:
    """A worker on the client's own loop thread; tools that are plain functions run in threads as always."""

    def __init__(self, worker: Worker, portal: Portal) -> None:
        self._worker = worker
        self._portal = portal

    def run(self) -> None:
        """Serve until Ctrl-C; then drain and return."""
        try:
            self._portal.run(self._worker.run())
        except KeyboardInterrupt:
            with contextlib.suppress(KeyboardInterrupt):
                self.stop()

    def stop(self) -> None:
        self._portal.run(self._worker.stop())

    def __enter__(self) -> Self:
        self._portal.run(self._worker.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._portal.run(self._worker.__aexit__())
