"""Who is remembered as slow, how long, and how many."""

import pytest

from sandbox.isolate import slow as module
from sandbox.isolate.slow import SLOW_FOR_S, SlowTenants


def test_for_a_while() -> None:
    now = [0.0]
    slow = SlowTenants(lambda: now[0])
    slow.add("a")
    assert "a" in slow
    assert "b" not in slow
    now[0] = SLOW_FOR_S - 1
    slow.add("b")
    now[0] = SLOW_FOR_S
    assert "a" not in slow
    assert "b" in slow
    assert len(slow) == 1


def test_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_MAX", 2)
    slow = SlowTenants()
    for tenant in ("a", "b", "c"):
        slow.add(tenant)
    assert [tenant in slow for tenant in ("a", "b", "c")] == [False, True, True]
