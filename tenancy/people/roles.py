"""What a member of an organization may do: each role may do what the one before it may, and more."""

from tenancy.principals import Role, Scope

STRONG_METHODS = frozenset({"password+code", "passkey"})
"""Sign-ins with a second factor: what owners may use where SSO is required."""
_READS = frozenset({Scope.RUNS_READ})
_WRITES = frozenset(
    {Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.SIGNALS_WRITE, Scope.APPROVALS_WRITE, Scope.SCRIPTS_CHECK}
)


def scopes_of(role: Role) -> frozenset[str]:
    """The scopes of a member. What takes `manage` is judged by the role itself (`Needs.role`)."""
    return _READS if role is Role.VIEWER else _WRITES


def may_manage(actor: Role, *, member: Role, becomes: Role | None) -> bool:
    """Whether `actor` may change a member's role, or remove it (`becomes` None).

    Admins manage everybody but owners, and make none; owners manage all.
    """
    if actor is Role.OWNER:
        return True
    return actor is Role.ADMIN and member is not Role.OWNER and becomes is not Role.OWNER
