"""What endpoints get: the services, and who calls."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import Request

from tenancy.keys.service import Keys
from tenancy.principals import Principal
from tenancy.quotas.service import Quotas
from tenancy.secrets import Secrets
from tenancy.service import Authenticator, Tenancy

if TYPE_CHECKING:
    from app.approvals.service import Approvals
    from app.audit.repository import AuditRepository
    from app.bulk.service import Bulk
    from app.dispatcher.calls import CallMaker
    from app.dispatcher.children import ChildEnds
    from app.health import Health
    from app.keeping.service import Keeping
    from app.namespaces.service import Namespaces
    from app.pages import Pages
    from app.quarantine.service import Quarantine
    from app.rates import Rates
    from app.reenactments.service import Reenactments
    from app.runs.forks import Forks
    from app.runs.live import LiveJournals
    from app.runs.service import Runs
    from app.scheduler.seals import Sealer
    from app.scripts.service import Scripts
    from app.signals.service import Signals
    from app.tasks.service import Tasks
    from app.toolsets.service import Toolsets
    from app.webhooks.hooks import Hooks
    from app.workflows.service import Workflows


@dataclass(frozen=True, slots=True)
class Services:
    """Made once by `app.main`; handed to every endpoint."""

    authenticator: Authenticator
    tenancy: Tenancy
    audit: "AuditRepository"
    secrets: Secrets
    keys: Keys
    quotas: Quotas
    rates: "Rates"
    pages: "Pages"
    toolsets: "Toolsets"
    scripts: "Scripts"
    workflows: "Workflows"
    runs: "Runs"
    quarantine: "Quarantine"
    keeping: "Keeping"
    bulk: "Bulk"
    namespaces: "Namespaces"
    forks: "Forks"
    live: "LiveJournals"
    approvals: "Approvals"
    reenactments: "Reenactments"
    sealer: "Sealer"
    signals: "Signals"
    tasks: "Tasks"
    hooks: "Hooks"
    call_maker: "CallMaker"
    """Makes the calls that the dispatcher claims."""
    children: "ChildEnds"
    health: "Health"


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _services(request: Request) -> Services:
    """As a coroutine, because FastAPI calls plain functions in threads."""
    return services_of(request)


async def _principal(request: Request) -> Principal:
    """Who calls, as the route has found out."""
    principal: Principal = request.state.principal
    return principal


Caller = Annotated[Principal, Depends(_principal)]
Edge = Annotated[Services, Depends(_services)]
