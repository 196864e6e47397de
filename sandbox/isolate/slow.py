"""Who is remembered as slow: tenants whose scripts lately held a process for long, or cost it its life.

They share one process then, so that however much they start, everybody else goes on in the others.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

SLOW_FOR_S = 600.0
"""How long a tenant counts as slow after it was."""
SLOW_MAX = 10_000
"""Tenants that are remembered as slow; the one that was longest ago goes."""


class SlowTenants:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()

    def add(self, tenant: str) -> None:
        self._until[tenant] = self._clock() + SLOW_FOR_S
        self._until.move_to_end(tenant)
        if len(self._until) > SLOW_MAX:
            self._until.popitem(last=False)

    def __contains__(self, tenant: str) -> bool:
        return len(self) > 0 and tenant in self._until

    def __len__(self) -> int:
        while self._until and next(iter(self._until.values())) <= self._clock():
            self._until.popitem(last=False)
        return len(self._until)
