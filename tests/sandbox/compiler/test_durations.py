"""Durations that nothing understands are told of before a run waits for them."""

import pytest

from sandbox.compiler.durations import bad_durations, understood
from sandbox.compiler.imports import imports_of
from sandbox.compiler.source import Source

IMPORTS = 'import { sleep, sleep as nap, waitForSignal } from "rewind";\n'


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('await sleep("ten days");', ['write milliseconds, or text such as "30s", "5m", "1h 30m", "10d"']),
        ("await nap('10 Days');", ['write `"10d"`']),
        ('await sleep("1.5hours", 1);', ['write `"1.5h"`']),
        ('await waitForSignal<{ a: [1] }>("go", { timeout: "5 mins" });', ['write `"5m"`']),
        ('await waitForSignal("go", { from: "harness", timeout: "soon", signal });', ["write milliseconds"]),
        ('await sleep("10d"); await sleep(`2h`); await waitForSignal("ten days");', []),
        ("await sleep(`${n} days`); await sleep(days + ' days'); await sleep('10 days'.slice(1));", []),
        ('await other.wait("10 days"); pay({ timeout: "10 days" });', []),
        ('await waitForSignal("go", { timeout: limit }); const x = { timeout: "10 days" };', []),
        ('await sleep("10 days', []),
        ("await sleep(", []),
        ("await waitForSignal", []),
    ],
)
def test_what_is_found(code: str, found: list[str]) -> None:
    source = Source(IMPORTS + code)
    hints = [one.hint for one in bad_durations(source, imports_of(source))]
    assert len(hints) == len(found)
    assert all(hint.startswith(begins) for hint, begins in zip(hints, found, strict=True))


@pytest.mark.parametrize(
    "text", ["250ms", "30s", "1h 30m", "1w2d", " 5 m ", "-3s", "PT90S", "P1DT2,5H", "1.5h"]
)
def test_what_module_rewind_takes_is_left_alone(text: str) -> None:
    assert understood(text)


def test_a_name_that_is_not_of_module_rewind_is_none_of_ours() -> None:
    source = Source('function sleep(text: string) {}\nsleep("ten days");')
    assert list(bad_durations(source, imports_of(source))) == []


def test_hostile_text_is_bounded() -> None:
    source = Source(IMPORTS + 'sleep("x");' * 1_000)
    assert len(list(bad_durations(source, imports_of(source)))) == 20
    deep = Source(IMPORTS + "waitForSignal(" * 5_000 + ")" * 5_000)
    assert list(bad_durations(deep, imports_of(deep))) == []
