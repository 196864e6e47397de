"""Activations: deliver the next events to a run's script and append what it did, live or by replay."""
