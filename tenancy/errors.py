"""Refusals that concern who calls and what belongs to whom.

ApiError
├── Unauthenticated        401
├── InsufficientScope      403
├── OrganizationSuspended  403
├── NamespaceSuspended     403
├── NotFound               404, also for what belongs to someone else
├── IdempotencyConflict    409
└── TooManyAttempts        429
"""

from typing import Any

from sandbox.journal.errors import ApiError


class Unauthenticated(ApiError):
    code = "unauthenticated"
    status = 401


class InsufficientScope(ApiError):
    code = "insufficient_scope"
    status = 403


class OrganizationSuspended(ApiError):
    code = "organization_suspended"
    status = 403


class NamespaceSuspended(ApiError):
    code = "namespace_suspended"
    status = 403


class NotFound(ApiError):
    code = "not_found"
    status = 404


class TooManyAttempts(ApiError):
    """Sign-ins of an account or from an address; `retry_after_s` says how long to wait."""

    code = "rate_limited"
    status = 429


class IdempotencyConflict(ApiError):
    code = "idempotency_conflict"
    status = 409


def refuse_suspended(organization: Any) -> None:
    """Nobody of a suspended or closed organization gets in; each is told why, and what helps."""
    if organization["deleted_at"] is not None:
        raise OrganizationSuspended(
            "This organization was closed: for 30 days an owner can restore it on the page /organizations."
        )
    if organization["suspended_at"] is not None:
        reason = organization["suspended_reason"] or "no reason was given"
        raise OrganizationSuspended(
            f"This organization is suspended: {reason.rstrip('.')}. Its runs stay where they are, and go on when "
            "the operator of this deployment resumes it: ask there."
        )
