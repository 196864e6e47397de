"""Cancelling many runs at once."""
