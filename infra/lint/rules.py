"""Our own rules, for what ruff and import-linter cannot know. Each message says what to do instead."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

SCOPES = frozenset({"Principal", "NamespaceId", "OrganizationId", "NamespaceRef", "TaskKey"})
"""Types that say whose rows a query may touch."""

UNSCOPED_QUERIES = {
    ("tenancy/repository.py", "find_key"): "looks up the caller itself, by the digest of a secret",
    ("tenancy/repository.py", "find_token"): "looks up the caller itself, by the digest of a secret",
    ("tenancy/repository.py", "mark_used"): "takes the id that such a look-up returned",
}
"""Repository methods without a scope, each with its reason."""

SYSTEM_FILES = {
    "sandbox/store/postgres/reach.py": "defines it",
    "sandbox/store/postgres/edge.py": "compares the data key with the database's, at the start",
    "sandbox/store/postgres/connection.py": "chooses the connection by what may be reached",
    "app/serve.py": "loops: scheduler, dispatcher, sealer, sender, collector",
    "app/health.py": "asks about the deployment, not about anyone's rows",
    "app/routing.py": "the session of a cookie, before its person's organization is known",
    "app/runs/repository.py": "one look for all who wait for runs, each of which has been found for its caller",
    "app/tasks/strays.py": "what hints tell, on behalf of no request",
    "app/tasks/endpoints.py": "leases over all of a key's namespaces; each row is judged by its namespace",
    "tenancy/service.py": "looks up the caller itself, by the digest of a secret",
    "dashboard/web.py": "pages of the account, which belongs to no organization",
}
"""Where statements may reach every tenant's rows, each with its reason."""

PURE_FILES = re.compile(r"sandbox/journal/.*|.*/(plans|usage|quotas|views)\.py")
SQL_FILES = re.compile(
    r"(.*/)?repository\.py|sandbox/store/.*|infra/.*|tests/.*|app/health\.py|tenancy/audit\.py"
)
"""Health checks ask the database about itself, not about anyone's rows."""
PRODUCT = re.compile(r"(app|tenancy|billing|dashboard|sandbox)/.*")
TESTS = re.compile(r"(sdk_python/)?tests/(?!bench/|simulation/).*")
"""Benches measure real time, simulations sleep in virtual time."""

_SQL = re.compile(
    r"\s*(select\s+(?!(?:an?|the|one|some|your)\s)[^;]+\sfrom\s+\w|insert\s+into\s+\w+\s*\(|update\s+\w+\s+set\s|delete\s+from\s+\w+"
    r"|truncate\s+\w+|create\s+(unlogged\s+)?table\s)",
    re.IGNORECASE,
)
_MARK = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
_WALL_CLOCKS = frozenset(
    {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}
)
_SLEEPS = frozenset({"time.sleep", "asyncio.sleep", "sleep"})


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    rule: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.advice} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file; `path` is relative to the repository, with forward slashes."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> "Source":
        return cls(path, text, ast.parse(text, path))

    def lines(self) -> list[str]:
        return self.text.splitlines()


Rule = Callable[[Source], Iterator[tuple[int, str]]]


def sql_outside_repositories(source: Source) -> Iterator[tuple[int, str]]:
    if SQL_FILES.fullmatch(source.path):
        return
    docstrings = {id(node) for node in _docstrings(source.tree)}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        if _SQL.match(node.value):
            yield node.lineno, "put this SQL into the folder's repository.py (or sandbox/store)"


def repository_takes_a_scope(source: Source) -> Iterator[tuple[int, str]]:
    if PurePosixPath(source.path).name != "repository.py":
        return
    for owner in ast.walk(source.tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or method.name.startswith("_"):
                continue
            arguments = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
            named = {name for argument in arguments for name in _names(argument.annotation)}
            if not named & SCOPES and (source.path, method.name) not in UNSCOPED_QUERIES:
                yield (
                    method.lineno,
                    f"{method.name} must take whose rows it may touch: one of {', '.join(sorted(SCOPES))}",
                )


def system_reach(source: Source) -> Iterator[tuple[int, str]]:
    """Row-level security ends where the system begins: few places may say so."""
    if not PRODUCT.fullmatch(source.path) or source.path in SYSTEM_FILES:
        return
    advice = "requests reach one tenant's rows: if this is no request, add it to SYSTEM_FILES with its reason"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and (
            node.attr in {"own_pool", "scoped"}
            or (node.attr == "system" and "pool" in ast.unparse(node.value))
        ):
            yield node.lineno, advice
    for call in _calls(source.tree):
        name = _dotted(call.func)
        whole = name == "Reach" and any(keyword.arg == "system" for keyword in call.keywords)
        if name == "as_system" or whole:
            yield call.lineno, advice


def commit_outside_unit_of_work(source: Source) -> Iterator[tuple[int, str]]:
    if not PRODUCT.fullmatch(source.path) or source.path.startswith("sandbox/store/"):
        return
    for call in _calls(source.tree):
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"commit", "rollback"}:
            yield call.lineno, "end transactions where they begin: `async with connection.transaction()`"


def async_in_pure_code(source: Source) -> Iterator[tuple[int, str]]:
    if not PURE_FILES.fullmatch(source.path):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield node.lineno, "async means I/O here, and this file is pure: move the I/O to its caller"


def wall_clock_in_product(source: Source) -> Iterator[tuple[int, str]]:
    if not PRODUCT.fullmatch(source.path):
        return
    for call in _calls(source.tree):
        if _dotted(call.func) in _WALL_CLOCKS:
            yield (
                call.lineno,
                "take the time from the database (now_ms()); for durations use time.monotonic()",
            )


def sleep_in_tests(source: Source) -> Iterator[tuple[int, str]]:
    if not TESTS.fullmatch(source.path):
        return
    for call in _calls(source.tree):
        if _dotted(call.func) in _SLEEPS and not _is_zero(call):
            yield (
                call.lineno,
                "wait for what should happen (an event, a future, wait_until) or advance the clock",
            )


def swallowed_cancellation(source: Source) -> Iterator[tuple[int, str]]:
    if source.path.startswith(("tests/", "sdk_python/tests/")):
        return
    for call in _calls(source.tree):
        if _dotted(call.func) == "asyncio.wait_for":
            # In Python 3.11 a cancellation that meets the awaited result is lost, and a loop goes on for ever.
            yield call.lineno, "use `async with asyncio.timeout(...)`: wait_for may swallow a cancellation"


def import_in_function(source: Source) -> Iterator[tuple[int, str]]:
    if TESTS.fullmatch(source.path):
        return
    lines = source.lines()
    for function in ast.walk(source.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom) and not _explained(lines, node.lineno):
                yield node.lineno, "import at the top, or say in a comment above why it must be here"


def unfinished_marks(source: Source) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.lines(), start=1):
        if _MARK.search(line) and '"' not in line.split("#", 1)[0]:
            yield number, "finish it, or file an issue: the code carries no such marks"


RULES: tuple[Rule, ...] = (
    system_reach,
    sql_outside_repositories,
    repository_takes_a_scope,
    commit_outside_unit_of_work,
    async_in_pure_code,
    wall_clock_in_product,
    sleep_in_tests,
    swallowed_cancellation,
    import_in_function,
    unfinished_marks,
)


def check(source: Source) -> list[Finding]:
    return [
        Finding(source.path, line, rule.__name__.replace("_", "-"), advice)
        for rule in RULES
        for line, advice in rule(source)
    ]


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c` of a chain of names, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (front := _dotted(node.value)):
        return f"{front}.{node.attr}"
    return ""


def _names(annotation: ast.expr | None) -> Iterator[str]:
    """Names used in an annotation, also in a quoted one."""
    if annotation is None:
        return
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value)


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Strings that stand alone as a statement: docstrings, also of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _is_zero(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def _explained(lines: list[str], number: int) -> bool:
    """Whether a comment or `try:` stands above the import, or above others directly in front of it."""
    for line in reversed(lines[: number - 1]):
        text = line.strip()
        if text == "try:" or text.startswith("#"):
            return True
        if not text.startswith(("import ", "from ")):
            return False
    return False
