"""Loops over what is due: timers, deadlines, timeouts, leases. Any number of replicas; the guards decide."""
