"""Which calls nobody waits for."""

import pytest

from sandbox.compiler.floating import floating_calls
from sandbox.compiler.imports import imports_of
from sandbox.compiler.source import NESTING_MAX, Source, too_deep_at

IMPORTS = (
    'import { github as gh, ask_user } from "rewind:tools";\n'
    'import * as tools from "rewind:tools";\n'
    'import { onboard } from "rewind:workflows";\n'
    'import { sleep, retry } from "rewind";\n'
)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("gh.close({ n: 1 });", ["gh.close"]),
        ("ask_user({ q: 1 })", ["ask_user"]),
        ("tools.github.close({})", ["tools.github.close"]),
        ("onboard({}); onboard.start({});", ["onboard", "onboard.start"]),
        ("sleep('1m');", ["sleep"]),
        ("if (x) gh.close({});\nelse gh.open({});", ["gh.close", "gh.open"]),
        ("list.map((n) => { gh.close({ n }); });", ["gh.close"]),
        ("gh.close({}).then((x) => x);", ["gh.close"]),
        ("gh.close({})\ngh.open({})", ["gh.close", "gh.open"]),
        ("list.forEach(async (n) => { await gh.close({ n }) })", ["list.forEach"]),
        ("await gh.close({});", []),
        ("void gh.close({});", []),
        ("gh.close({}).catch(() => {});", []),
        ("gh.close({}).then((x) => x, () => {});", []),
        ("return gh.close({});", []),
        ("const p = gh.close({});", []),
        ("list.map((n) => gh.close({ n }));", []),
        ("await Promise.all([gh.close({}), gh.open({})]);", []),
        ("const x = y ? gh.close({}) : gh.open({});", []),
        ("other.close({});", []),
        ("// gh.close({});\n'gh.close({})'; `gh.close({})`;", []),
        ("x = { a: 1 }\n", []),
        ("for (const i of gh.list({})) { }", []),
    ],
)
def test_floating_calls(code: str, found: list[str]) -> None:
    source = Source(IMPORTS + code)
    assert [one.path for one in floating_calls(source, imports_of(source))] == found


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * NESTING_MAX + "]" * NESTING_MAX, False),
        ("[" * (NESTING_MAX + 1), True),
        ("{a:" * (NESTING_MAX + 1), True),
        ('"' + "[" * 100 + '"', False),
        ("//" + "[" * 100, False),
        ("/*" + "{" * 100 + "*/", False),
        ("[]{}" * 1000, False),
    ],
)
def test_nesting(text: str, *, deep: bool) -> None:
    assert (too_deep_at(text) is not None) is deep
