"""What each plan allows a namespace. Pure; a quota that a plan does not name is limited by the engine alone."""

from collections.abc import Mapping
from types import MappingProxyType

DAY_MS = 86_400_000
GIB = 1024**3

PLANS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "open": MappingProxyType({}),
        "free": MappingProxyType(
            {
                "active_runs": 100,
                "runs_per_month": 10_000,
                "cpu_ms_per_month": 3_600_000,
                "scripts_per_month": 1_000,
                "ttl_max": 7 * DAY_MS,
                "script_bytes_max": 64 * 1024,
                "storage_bytes": GIB,
            }
        ),
        "team": MappingProxyType(
            {
                "active_runs": 10_000,
                "runs_per_month": 1_000_000,
                "cpu_ms_per_month": 360_000_000,
                "scripts_per_month": 100_000,
                "ttl_max": 30 * DAY_MS,
                "script_bytes_max": 256 * 1024,
                "storage_bytes": 100 * GIB,
            }
        ),
    }
)
"""`open` is that of deployments without billing, and of every organization until it has another one."""
