"""A receiver for the tests of webhooks."""

from tests.fixtures.receiver import receiver

__all__ = ["receiver"]
