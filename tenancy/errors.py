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
