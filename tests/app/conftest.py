"""The api, for all tests of the control plane."""

from tests.fixtures.api import api, own_api

__all__ = ["api", "own_api"]
