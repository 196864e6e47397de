"""What a script does with `main` that it should leave to Rewind."""

import pytest

from sandbox.compiler.main_use import main_uses
from sandbox.compiler.source import Source


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("export default async function main(input: { a: 1, b: 2 }) {}", []),
        ("async function main(input: Map<string, number>) {}", []),
        ("function main() {}", []),
        ("function main(input: string,) {}", []),
        ("function main({ a, b }: { a: string; b: string }) {}", []),
        ("function main(input: string, days = 3) {}", []),
        ("function main(input: string, days?: number) {}", []),
        ("function main(repo: string, days: number) {}", ["main_parameters"]),
        ("function main(input: { f(a: 1, b: 2): void }, days: number, c: 1) {}", ["main_parameters"] * 2),
        ("function main() {}\nmain();", ["main_called"]),
        ("function main() {}\nmain({ a: 1 }).then(console.log);", ["main_called"]),
        ("function main() {}\nawait main();", ["main_called"]),
        ("function other() { main(); }", []),
        ("const x = { main() {} };\nx.main();", []),
        ("// main()\nconst a = 'main()';", []),
        ("function main(", []),
    ],
)
def test_uses(text: str, codes: list[str]) -> None:
    assert [found.code for found in main_uses(Source(text))] == codes


def test_the_place_is_that_of_the_name() -> None:
    text = "function main(repo: string, days: number) {}"
    (found,) = main_uses(Source(text))
    assert text[found.start : found.end] == "days"
