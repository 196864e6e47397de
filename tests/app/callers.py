"""Who may call what: a row for every endpoint of the API, and what each kind of caller is answered.

The answers of a row, in their order:
  key        an API key of all scopes
  stranger   an API key of another organization, which has used no namespace of this name: its own is empty
  neighbour  a token of all scopes of another namespace, which names ours
  run        our namespace's token of all scopes, for another run
  toolset    the same, for another toolset
  workflow   the same, for another workflow
  suspended  an API key of all scopes, when the namespace is suspended
`-` stands for 403: what takes `manage` is for keys only. Rows that destroy stand last.
"""

from dataclasses import dataclass
from typing import Any

from tests.fixtures.api import SCRIPT

RUN = {"script": SCRIPT, "toolset": "support"}
DECISIONS = {"items": [{"run": "RUN", "call": 2, "decision": "denied"}]}
TASKS = {"items": [{"token": "TASK"}]}
DONE = {"items": [{"token": "TASK", "result": 1}]}
FAILED = {"items": [{"token": "TASK", "error": {"message": "x"}}]}


@dataclass(frozen=True, slots=True)
class Row:
    method: str
    path: str
    body: Any
    scope: str | None
    """What a key or token needs; None: any credential will do."""
    role: str | None
    """The least role of a member; None: no member has the scope."""
    key: int
    stranger: int
    neighbour: int
    run: int
    toolset: int
    workflow: int
    suspended: int

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _row(method: str, path: str, body: Any, scope: str | None, role: str | None, answers: str) -> Row:
    numbers = [403 if text == "-" else int(text) for text in answers.split()]
    return Row(method, path, body, scope, role, *numbers)


READ, WRITE, SIGNAL, APPROVE = "runs:read", "runs:write", "signals:write", "approvals:write"
WORK, CHECK, MANAGE = "tasks:work", "scripts:check", "manage"
VIEW, DEV, ADMIN = "viewer", "developer", "admin"
NONE: Any = None

ROWS = [
    # key stranger neighbour run toolset workflow suspended
    _row("GET", "/v1/me", NONE, None, VIEW, "200 200 200 200 200 200 200"),
    _row("POST", "/v1/runs", RUN, WRITE, DEV, "201 422 404 403 403 403 403"),
    _row("GET", "/v1/runs", NONE, READ, VIEW, "200 200 404 200 200 200 200"),
    _row("GET", "/v1/runs/{run}", NONE, READ, VIEW, "200 404 404 404 200 200 200"),
    _row("GET", "/v1/runs/{run}/output", NONE, READ, VIEW, "200 404 404 404 200 200 200"),
    _row("GET", "/v1/runs/{run}/journal", NONE, READ, VIEW, "200 404 404 404 200 200 200"),
    _row("GET", "/v1/runs/{run}/events", NONE, READ, VIEW, "200 404 404 404 200 200 200"),
    _row("POST", "/v1/runs/batch", {"items": [RUN]}, WRITE, DEV, "200 200 200 200 200 200 200"),
    _row("GET", "/v1/runs/{run}/seal", NONE, READ, VIEW, "200 404 404 404 200 200 200"),
    _row("GET", "/v1/approvals", NONE, READ, VIEW, "200 200 404 200 200 200 200"),
    _row("POST", "/v1/approvals/decide", DECISIONS, APPROVE, DEV, "200 200 200 200 200 200 200"),
    _row("GET", "/v1/runs/{run}/approvals", NONE, READ, VIEW, "200 404 404 404 200 200 200"),
    _row("GET", "/v1/runs/{run}/approvals/{call}", NONE, READ, VIEW, "200 404 404 404 403 200 200"),
    _row("POST", "/v1/runs/{run}/approvals/{call}", {"decision": "denied"}, APPROVE, DEV, "409 404 404 404 403 409 403"),
    _row("GET", "/v1/runs/{run}/values/{sha256}", NONE, READ, VIEW, "200 404 404 404 200 200 200"),
    _row("POST", "/v1/runs/{run}/replay", {}, WRITE, DEV, "200 404 404 404 200 200 200"),
    _row("GET", "/v1/runs/{run}/replays/{replay}", NONE, READ, VIEW, "404 404 404 404 404 404 404"),
    _row("POST", "/v1/scripts/test", RUN, CHECK, DEV, "200 422 404 200 403 200 403"),
    _row("POST", "/v1/runs/{run}/signals", {"name": "go"}, SIGNAL, DEV, "202 404 404 404 202 202 403"),
    _row("POST", "/v1/runs/{run}/release", {"reason": "tried"}, MANAGE, ADMIN, "409 404 - - - - 403"),
    _row("POST", "/v1/runs/{run}/fork", {"dry_run": True}, WRITE, DEV, "409 404 404 404 403 403 403"),
    _row("POST", "/v1/scripts/check", RUN, CHECK, DEV, "200 422 404 200 403 200 403"),
    _row("GET", "/v1/scripts", NONE, READ, VIEW, "200 200 404 200 200 200 200"),
    _row("GET", "/v1/scripts/{digest}", NONE, READ, VIEW, "200 404 404 200 200 200 200"),
    _row("POST", "/v1/toolsets", {"name": "support", "tools": []}, MANAGE, DEV, "201 201 - - - - 201"),
    _row("GET", "/v1/toolsets", NONE, READ, VIEW, "200 200 200 200 200 200 200"),
    _row("GET", "/v1/toolsets/{name}", NONE, READ, VIEW, "200 404 200 200 403 200 200"),
    _row("GET", "/v1/toolsets/{name}/declarations", NONE, READ, VIEW, "200 404 200 200 403 200 200"),
    _row("GET", "/v1/toolsets/{name}/search", NONE, READ, VIEW, "200 404 200 200 403 200 200"),
    _row("POST", "/v1/toolsets/{name}/refresh", {"accept": True}, MANAGE, DEV, "200 404 - - - - 200"),
    _row("PUT", "/v1/workflows/{workflow}", {"script": SCRIPT}, MANAGE, DEV, "200 200 - - - - 200"),
    _row("GET", "/v1/workflows", NONE, READ, VIEW, "200 200 200 200 200 200 200"),
    _row("GET", "/v1/workflows/{workflow}", NONE, READ, VIEW, "200 404 200 200 200 403 200"),
    _row("GET", "/v1/workflows/{workflow}/versions", NONE, READ, VIEW, "200 404 200 200 200 403 200"),
    _row("POST", "/v1/tokens", {"namespace": "acme"}, MANAGE, ADMIN, "201 201 - - - - 403"),
    _row("GET", "/v1/tokens", NONE, MANAGE, VIEW, "200 200 - - - - 200"),
    _row("GET", "/v1/tokens/{token}", NONE, MANAGE, VIEW, "200 404 - - - - 200"),
    _row("PUT", "/v1/secrets/{name}", {"value": "x"}, MANAGE, DEV, "200 200 - - - - 403"),
    _row("GET", "/v1/secrets", NONE, MANAGE, VIEW, "200 200 - - - - 200"),
    _row("GET", "/v1/secrets/{name}", NONE, MANAGE, VIEW, "200 404 - - - - 404"),
    _row("POST", "/v1/keys", {}, MANAGE, ADMIN, "201 201 - - - - 201"),
    _row("GET", "/v1/keys", NONE, MANAGE, ADMIN, "200 200 - - - - 200"),
    _row("GET", "/v1/keys/{key}", NONE, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("POST", "/v1/webhooks", {"url": "https://example.com/"}, MANAGE, ADMIN, "201 201 - - - - 201"),
    _row("GET", "/v1/webhooks", NONE, MANAGE, VIEW, "200 200 - - - - 200"),
    _row("GET", "/v1/webhooks/{webhook}", NONE, MANAGE, VIEW, "200 404 - - - - 200"),
    _row("PATCH", "/v1/webhooks/{webhook}", {"enabled": False}, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("POST", "/v1/webhooks/{webhook}/ping", NONE, MANAGE, ADMIN, "202 404 - - - - 202"),
    _row("GET", "/v1/webhooks/{webhook}/deliveries", NONE, MANAGE, VIEW, "200 404 - - - - 200"),
    _row("GET", "/v1/webhooks/{webhook}/deliveries/{delivery}", NONE, MANAGE, VIEW, "200 404 - - - - 200"),
    _row("POST", "/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver", NONE, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("POST", "/v1/webhooks/{webhook}/redeliver", {}, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("GET", "/v1/events", NONE, MANAGE, VIEW, "200 200 - - - - 200"),
    _row("GET", "/v1/namespaces/{name}/quotas", NONE, MANAGE, VIEW, "200 200 - - - - 200"),
    _row("PATCH", "/v1/namespaces/{name}/quotas", {"active_runs": 5}, MANAGE, ADMIN, "200 200 - - - - 200"),
    _row("GET", "/v1/usage", NONE, MANAGE, VIEW, "200 200 - - - - 200"),
    _row("GET", "/v1/audit", NONE, MANAGE, ADMIN, "200 200 - - - - 200"),
    _row("PUT", "/v1/namespaces/{name}", {}, MANAGE, ADMIN, "200 200 - - - - 200"),
    _row("GET", "/v1/namespaces/{name}", NONE, MANAGE, VIEW, "200 404 - - - - 200"),
    _row("GET", "/v1/namespaces", NONE, MANAGE, VIEW, "200 200 - - - - 200"),
    _row("GET", "/v1/namespaces/{name}/seals", NONE, READ, VIEW, "200 404 404 403 200 200 200"),
    _row("POST", "/v1/namespaces/{name}/export", NONE, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("POST", "/v1/tasks/claim", {"max": 1}, WORK, NONE, "200 200 200 403 200 200 403"),
    _row("POST", "/v1/tasks/complete", DONE, WORK, NONE, "200 200 200 200 200 200 200"),
    _row("POST", "/v1/tasks/fail", FAILED, WORK, NONE, "200 200 200 200 200 200 200"),
    _row("POST", "/v1/tasks/heartbeat", TASKS, WORK, NONE, "200 200 200 200 200 200 200"),
    _row("POST", "/v1/tasks/defer", TASKS, WORK, NONE, "200 200 200 200 200 200 200"),
    _row("POST", "/v1/tasks/release", TASKS, WORK, NONE, "200 200 200 200 200 200 200"),
    _row("POST", "/v1/runs/{run}/cancel", {}, WRITE, DEV, "202 404 404 404 202 202 403"),
    _row("POST", "/v1/runs/cancel", {"filter": {}, "reason": "all"}, WRITE, DEV, "202 202 404 403 202 202 403"),
    _row("POST", "/v1/runs/{run}/redact", {"seq": 0, "field": "input", "reason": "asked"}, MANAGE, ADMIN, "409 404 - - - - 409"),
    _row("POST", "/v1/runs/{run}/abandon", {"reason": "tried"}, MANAGE, ADMIN, "409 404 - - - - 403"),
    _row("POST", "/v1/keys/{key}/rotate", {}, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("POST", "/v1/webhooks/{webhook}/rotate", {}, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("DELETE", "/v1/runs/{run}", NONE, MANAGE, ADMIN, "409 404 - - - - 409"),
    _row("DELETE", "/v1/toolsets/{name}", NONE, MANAGE, DEV, "204 404 - - - - 204"),
    _row("DELETE", "/v1/workflows/{workflow}", NONE, MANAGE, DEV, "204 404 - - - - 204"),
    _row("DELETE", "/v1/tokens/{token}", NONE, MANAGE, ADMIN, "204 404 - - - - 204"),
    _row("DELETE", "/v1/secrets/{name}", NONE, MANAGE, DEV, "204 404 - - - - 404"),
    _row("DELETE", "/v1/keys/{key}", NONE, MANAGE, ADMIN, "204 404 - - - - 204"),
    _row("DELETE", "/v1/webhooks/{webhook}", NONE, MANAGE, ADMIN, "204 404 - - - - 204"),
    _row("POST", "/v1/namespaces/{name}/suspend", NONE, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("POST", "/v1/namespaces/{name}/resume", NONE, MANAGE, ADMIN, "200 404 - - - - 200"),
    _row("DELETE", "/v1/namespaces/{name}", NONE, MANAGE, ADMIN, "204 404 - - - - 204"),
]  # fmt: skip
