"""What callers may do."""

import pytest

from sandbox.journal.ids import NamespaceId, OrganizationId, RunId
from tenancy.errors import InsufficientScope, NotFound
from tenancy.principals import KEY_SCOPES, NamespaceRef, Narrow, Principal, Scope

RUN = RunId("01890000-0000-7000-8000-000000000000")
OTHER = RunId("01890000-0000-7000-8000-000000000001")


def token(narrow: Narrow | None = None, *scopes: Scope) -> Principal:
    return Principal(
        "token",
        "t",
        OrganizationId("o"),
        frozenset(scopes),
        NamespaceRef(NamespaceId("n"), "acme"),
        narrow or Narrow(),
    )


def test_scopes() -> None:
    key = Principal("key", "k", OrganizationId("o"), frozenset(KEY_SCOPES))
    for scope in Scope:
        key.require(scope)
    with pytest.raises(InsufficientScope, match="API keys"):
        token(None, Scope.RUNS_READ).require(Scope.MANAGE)
    with pytest.raises(InsufficientScope, match=r"runs:write.*runs:read"):
        token(None, Scope.RUNS_READ).require(Scope.RUNS_WRITE)


def test_a_narrowed_run() -> None:
    narrowed = token(Narrow(run=RUN))
    narrowed.require_run(RUN)
    with pytest.raises(NotFound):
        narrowed.require_run(OTHER)
    with pytest.raises(InsufficientScope):
        narrowed.require_start(toolset=None, workflow=None)


def test_narrowed_workflows_and_signals() -> None:
    narrowed = token(Narrow(workflows=("a",), signals=()))
    narrowed.require_start(toolset=None, workflow="a")
    with pytest.raises(InsufficientScope):
        narrowed.require_start(toolset=None, workflow="b")
    with pytest.raises(InsufficientScope):
        narrowed.require_signal("any")
    token().require_signal("any")


@pytest.mark.parametrize(
    "narrow",
    [
        Narrow(),
        Narrow(toolset="t", workflows=("a", "b"), run=RUN, signals=("s",)),
        Narrow(workflows=(), signals=()),
    ],
)
def test_narrowing_survives_storage(narrow: Narrow) -> None:
    assert Narrow.from_json(narrow.to_json()) == narrow
