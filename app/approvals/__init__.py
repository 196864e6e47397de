"""Calls that wait for a person: shown with all that a decision needs, and decided once."""
