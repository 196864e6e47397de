"""What may be done with a namespace as a whole. Names are those of requests."""

from app.namespaces.repository import NamespaceRepository, NamespaceRow
from sandbox.store.postgres.edge import PostgresEdge
from tenancy.errors import NotFound
from tenancy.principals import Principal
from tenancy.service import NAMESPACE_NAME, Tenancy


class Namespaces:
    def __init__(self, repository: NamespaceRepository, tenancy: Tenancy, store: PostgresEdge) -> None:
        self.repository = repository
        self._tenancy = tenancy
        self._store = store

    async def page(self, principal: Principal, after: str | None, limit: int) -> list[NamespaceRow]:
        return await self.repository.page(principal.organization, after, limit)

    async def get(self, principal: Principal, name: str) -> NamespaceRow:
        """Errors: NotFound, also for a token that names another namespace than its own."""
        found = None
        mine = principal.namespace is None or principal.namespace.name == name
        if mine and NAMESPACE_NAME.fullmatch(name) is not None:
            found = await self.repository.find(principal.organization, name)
        if found is None:
            raise NotFound(f"There is no namespace {name[:140]!r}.")
        return found

    async def put(
        self,
        principal: Principal,
        name: str,
        *,
        labels: dict[str, str] | None,
        retention: tuple[int | None] | None,
        ip: str,
    ) -> NamespaceRow:
        """Make it if there is none. `labels` None and `retention` None: as they are."""
        await self._tenancy.put_namespace(principal, name, labels)
        if retention is not None:
            await self.repository.keep_for(principal.organization, name, retention[0], principal.actor, ip)
        return await self.get(principal, name)

    async def suspend(self, principal: Principal, name: str, ip: str) -> NamespaceRow:
        """Nothing of it proceeds from now on; at other replicas' doors within a second."""
        found = await self.get(principal, name)
        await self.repository.suspend(principal.organization, found, principal.actor, ip)
        self._tenancy.forget()
        return await self.get(principal, name)

    async def resume(self, principal: Principal, name: str, ip: str) -> NamespaceRow:
        found = await self.get(principal, name)
        await self.repository.resume(principal.organization, found, principal.actor, ip)
        self._tenancy.forget()
        self._store.tell_ready()
        return await self.get(principal, name)

    async def delete(self, principal: Principal, name: str, ip: str) -> None:
        """Stop everything of it and make it unreadable at once; its rows go in the background."""
        found = await self.get(principal, name)
        deleted = await self.repository.delete(principal.organization, found, principal.actor, ip)
        self._store.tell_erased(found.id)
        self._tenancy.forget()
        if not deleted:
            raise NotFound(f"There is no namespace {name[:140]!r}.")
