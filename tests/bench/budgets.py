"""Budgets: the absolute guides of DESIGN §14, and what the peers' table asks for.

The latter are ratios: the peer's figure here is the one of that table, measured elsewhere, so it is a guide;
`python -m tests.bench.peers` measures the peers and Rewind in one run and compares those.
"""

from tests.bench.report import Budget

# The peers' medians, as the table has them.
DBOS_W2_P50_MS = 3.6
DBOS_W4_SIGNAL_P50_MS = 6.4
RESTATE_W1_P50_MS = 38.0
RESTATE_W1_CPU_MS_PER_STEP = 2.97
BEST_W1T_STEPS_PER_S = 747.0
BEST_W1T_CPU_MS_PER_STEP = 1.52
RESTATE_W3_S = 2.6
RESTATE_W3_RESTART_MS = 920.0
RESTATE_W5_P50_MS = 66.0

W2_P50 = Budget(1.5 * DBOS_W2_P50_MS, "1.5 × DBOS TS")
W1_P50 = Budget(RESTATE_W1_P50_MS, "Restate")
W1_CPU = Budget(0.6 * RESTATE_W1_CPU_MS_PER_STEP, "0.6 × Restate")
W1T_STEPS = Budget(2 * BEST_W1T_STEPS_PER_S, "2 × the best (Absurd)", at_least=True)
W1T_CPU = Budget(0.5 * BEST_W1T_CPU_MS_PER_STEP, "0.5 × the best (Restate)")
W3_WALL = Budget(RESTATE_W3_S, "Restate")
W3_RESTART = Budget(RESTATE_W3_RESTART_MS, "Restate")
W4_PROCESS = Budget(1.0, "0 bytes, and 1 KiB of noise")
W4_STORE = Budget(6.0, "peers' table")
W4_SIGNAL = Budget(1.2 * DBOS_W4_SIGNAL_P50_MS, "1.2 × DBOS TS")
W5_P50 = Budget(RESTATE_W5_P50_MS, "Restate")

STEP_P50 = Budget(2.5, "DESIGN §14")
STEP_CPU = Budget(2.4, "DESIGN §14")
STEP_CPU_32 = Budget(0.75, "DESIGN §14")
GAP_RATIO = Budget(1.2, "DESIGN §14")
FIRST_CALL_KNOWN = Budget(6.0, "DESIGN §14")
FIRST_CALL_NEW = Budget(80.0, "DESIGN §14")
CHECK_P50 = Budget(40.0, "40 ms")
CHECK_BESIDE = Budget(240.0, "40 ms + 200 ms")
BOMB = Budget(3.5, "3.5 s")
REPLAY = Budget(15_000, "DESIGN §14", at_least=True)
SIGNAL_WARM = Budget(6.0, "DESIGN §14")
SIGNAL_EVICTED = Budget(30.0, "DESIGN §14")
BESIDE_A_BURST = Budget(100.0, "DESIGN §5")
KILL_TO_STEP = Budget(900.0, "DESIGN §14")
WAITING_STORE = Budget(4.0, "DESIGN §14")
TIMERS_LATE = Budget(3_000.0, "DESIGN §14")
TIMERS_EARLY = Budget(0, "DESIGN §14")
PARALLEL_RATIO = Budget(1.2, "DESIGN §14")
