"""The api, for all tests of the control plane."""

from tests.fixtures.api import api, own_api
from tests.fixtures.oidc import provider
from tests.fixtures.receiver import receiver

__all__ = ["api", "own_api", "provider", "receiver"]
