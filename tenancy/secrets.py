"""Secrets that customers leave with us: written, never read back, presented by the dispatcher alone.

Sealed with AES-GCM under the deployment's secret key (REWIND_SECRET_KEY_FILE) and bound to where they belong,
so that a row copied elsewhere does not open. A reference resolves in the run's namespace first, then in the
organization.
"""

import re
from collections.abc import Iterable

from sandbox.journal.errors import ApiError, FieldError
from sandbox.journal.ids import NamespaceId, OrganizationId
from sandbox.store.sealing import KeyBox
from tenancy.errors import NotFound
from tenancy.repository import NO_NAMESPACE, SecretRepository, SecretRow

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
VALUE_BYTES_MAX = 64 * 1024


class SecretBox(KeyBox):
    """The key of customers' secrets."""

    setting = "REWIND_SECRET_KEY_FILE"


class Secrets:
    """`namespace` None: of the whole organization."""

    def __init__(self, repository: SecretRepository, box: SecretBox) -> None:
        self._repository = repository
        self._box = box

    async def put(
        self, organization: OrganizationId, namespace: NamespaceId | None, name: str, value: str
    ) -> SecretRow:
        data = value.encode()
        if not 1 <= len(data) <= VALUE_BYTES_MAX:
            message = f"A secret has 1 to {VALUE_BYTES_MAX:,} bytes."
            raise ApiError(message, errors=[FieldError("value", "invalid_value", message)])
        within = namespace or NO_NAMESPACE
        sealed = self._box.seal(data, _place(organization, within, checked_secret_name(name)))
        return await self._repository.put(organization, within, name, sealed)

    async def get(self, organization: OrganizationId, namespace: NamespaceId | None, name: str) -> SecretRow:
        """When it was written; the value is given to nobody."""
        row = None
        if NAME.fullmatch(name) is not None:
            row = await self._repository.get(organization, namespace or NO_NAMESPACE, name)
        if row is None:
            raise NotFound(f"There is no secret {name[:140]!r} here.")
        return row

    async def page(
        self, organization: OrganizationId, namespace: NamespaceId | None, *, after: str | None, limit: int
    ) -> list[SecretRow]:
        return await self._repository.page(organization, namespace or NO_NAMESPACE, after, limit)

    async def delete(self, organization: OrganizationId, namespace: NamespaceId | None, name: str) -> None:
        known = NAME.fullmatch(name) is not None
        if not known or not await self._repository.delete(organization, namespace or NO_NAMESPACE, name):
            raise NotFound(f"There is no secret {name[:140]!r} here.")

    async def resolve(
        self,
        organization: OrganizationId,
        namespace: NamespaceId | None,
        names: Iterable[str],
        *,
        fallback: bool = True,
    ) -> dict[str, str]:
        """The values of those names that are known: the namespace's own, else (`fallback`) the organization's.

        Errors: SealBroken, Unavailable.
        """
        wanted = sorted(set(names))
        if not wanted:
            return {}
        places = [namespace] if namespace is not None else []
        if fallback or namespace is None:
            places.append(NO_NAMESPACE)
        found: dict[str, str] = {}
        rows = await self._repository.sealed(organization, places, wanted)
        for place in places:
            for name in wanted:
                sealed = rows.get((place, name))
                if sealed is not None and name not in found:
                    found[name] = self._box.open(sealed, _place(organization, place, name)).decode()
        return found


def checked_secret_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        message = (
            "A secret's name has 1 to 128 letters, digits and _ . - and begins with a letter, a digit or _."
        )
        raise ApiError(message, errors=[FieldError("name", "invalid_name", message)])
    return name


def _place(organization: OrganizationId, namespace: NamespaceId, name: str) -> str:
    return f"secret/{organization}/{namespace}/{name}"
