"""Claims that wait at an api, as a worker knows them: whom a new call is leased to."""

from collections.abc import Callable

import pytest

from sandbox.activation import parked
from sandbox.activation.parked import FRESH_S, ParkedClaims
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import (
    Digest,
    Epoch,
    NamespaceId,
    OrganizationId,
    RunId,
    Seq,
    TimeMs,
    WorkerId,
)
from sandbox.store.interface import CommandAppend, CommandDraft, RunFacts, TaskFilter
from sandbox.store.leases import park_message, unpark_message

ORGANIZATION = OrganizationId("o")
FACTS = RunFacts(
    namespace=NamespaceId("n"),
    namespace_name="acme",
    organization=ORGANIZATION,
    run=RunId("r"),
    epoch=Epoch(1),
    script=Digest("sha256:0"),
    compiled={},
    toolset="support",
    tools=(),
    labels={},
)


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def claims(now: list[float]) -> ParkedClaims:
    return ParkedClaims(clock=lambda: now[0])


def leased_to(claims: ParkedClaims, tool: str = "a") -> str | None:
    claim = claims.lease(FACTS, tool)
    return None if claim is None else claim.id


def test_a_claim_gets_as_many_calls_as_it_has_slots(claims: ParkedClaims) -> None:
    claims.on_park(park_message("c1", TaskFilter(ORGANIZATION), 2, "api"))
    assert [leased_to(claims) for _ in range(3)] == ["c1", "c1", None]


def test_a_claim_that_left_gets_nothing(claims: ParkedClaims) -> None:
    wanted = TaskFilter(ORGANIZATION)
    claims.on_park(park_message("c1", wanted, 1, "api"))
    claims.on_unpark(unpark_message("c1", wanted))
    assert leased_to(claims) is None


def test_a_claim_that_is_not_named_again_is_gone(claims: ParkedClaims, now: list[float]) -> None:
    claims.on_park(park_message("c1", TaskFilter(ORGANIZATION), 1, "api"))
    now[0] += FRESH_S / 2
    claims.on_park(park_message("c2", TaskFilter(ORGANIZATION), 1, "api"))
    now[0] += FRESH_S / 2 + 0.1
    assert [leased_to(claims), leased_to(claims)] == ["c2", None]


def test_calls_of_one_commit_share_a_claim_and_later_ones_get_another(claims: ParkedClaims) -> None:
    for name in ("c1", "c2"):
        claims.on_park(park_message(name, TaskFilter(ORGANIZATION), 9, "api"))
    assert [leased_to(claims), leased_to(claims)] == ["c1", "c1"]
    leased = CommandDraft(EntryType.SCHEDULE_TOOL_CALL, Seq(0), TimeMs(0), b"{}", n=1, claim_id="c1")
    claims.on_batch(
        [
            CommandAppend(
                namespace=FACTS.namespace,
                run=FACTS.run,
                worker=WorkerId(1),
                owner_epoch=1,
                commands_before=0,
                delivered=Seq(0),
                cpu_us=0,
                activations=1,
                organization=ORGANIZATION,
                commands=[leased],
            )
        ]
    )
    assert leased_to(claims) == "c2"


@pytest.mark.parametrize(
    "wanted",
    [
        lambda: TaskFilter(OrganizationId("another")),
        lambda: TaskFilter(ORGANIZATION, NamespaceId("another")),
        lambda: TaskFilter(ORGANIZATION, toolset="another"),
        lambda: TaskFilter(ORGANIZATION, tools=("b",)),
        lambda: TaskFilter(ORGANIZATION, tools=()),
    ],
)
def test_a_claim_gets_only_what_it_asked_for(claims: ParkedClaims, wanted: Callable[[], TaskFilter]) -> None:
    claims.on_park(park_message("stranger", wanted(), 1, "api"))
    assert leased_to(claims) is None
    exact = TaskFilter(ORGANIZATION, NamespaceId("n"), "support", ("a",))
    claims.on_park(park_message("exact", exact, 1, "api"))
    assert leased_to(claims) == "exact"


def test_only_so_many_claims_are_known(claims: ParkedClaims, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "CLAIMS_MAX", 2)
    for name in ("c1", "c2", "c3"):
        claims.on_park(park_message(name, TaskFilter(ORGANIZATION), 1, "api"))
    assert [leased_to(claims) for _ in range(3)] == ["c1", "c2", None]
    claims.on_park(park_message("c4", TaskFilter(ORGANIZATION), 1, "api"))
    assert leased_to(claims) == "c4"
