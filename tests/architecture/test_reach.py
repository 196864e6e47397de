"""Who reaches every tenant's rows: everything else runs as the request role, in its caller's reach.

With `tests/infra/test_policies.py`, which attacks every table with every verb in a tenant's reach, this closes the
matter for queries that are yet to be written: whatever a new one forgets, it shows no foreign row, unless its caller
stands here.
"""

import ast
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("app", "dashboard", "billing", "tenancy", "sandbox")
BEYOND = {
    "app/routing.py": "finds the session of a cookie, before anybody is known",
    "app/tasks/endpoints.py": "leases over all of a key's namespaces, by functions that are given whose (0023)",
    "app/health.py": "asks for the schema and the workers; no tenant's rows",
    "app/serve.py": "the loops: scheduler, dispatcher, webhooks, and answers of the sandbox",
    "dashboard/web.py": "people, sessions and members are of no tenant; pages of a tenant's rows say `within`",
    "tenancy/service.py": "finds the key or token of a secret, before anybody is known",
    "sandbox/store/postgres/edge.py": "keys of namespaces, whose rows were decided on before; starts and events",
    "sandbox/store/postgres/connection.py": "chooses the pool by the reach",
    "sandbox/store/postgres/reach.py": "defines it",
}


def reaches_everything(tree: ast.AST) -> Counter[str]:
    """What in this module runs statements beyond a tenant's reach."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "as_system":
                found["as_system()"] += 1
            if node.func.id == "Reach" and any(keyword.arg == "system" for keyword in node.keywords):
                found["Reach(system=…)"] += 1
        elif isinstance(node, ast.Attribute) and node.attr in {"own_pool", "scoped"}:
            found[f".{node.attr}"] += 1
        elif isinstance(node, ast.Attribute) and node.attr == "system" and _is_pool(node.value):
            found[".system"] += 1
    return found


def _is_pool(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and "pool" in ast.unparse(node)


def test_who_reaches_every_tenant_stands_in_the_list() -> None:
    beyond = {
        path.relative_to(REPOSITORY).as_posix()
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*.py")
        if reaches_everything(ast.parse(path.read_text()))
    }
    assert beyond == set(BEYOND), "say why, or name the caller's reach instead"


def test_the_search_finds_each_way() -> None:
    for text in (
        "with as_system():\n  pass",
        "limit_to(Reach(system=True))",
        "store.own_pool.fetch()",
        "self._pool.system.acquire()",
    ):
        assert reaches_everything(ast.parse(text)), text
    assert not reaches_everything(ast.parse("platform.system()\nlimit_to(Reach(organization=x))"))
