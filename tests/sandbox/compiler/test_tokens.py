"""The estimate of tokens is above the counts of real encoders, and not far above."""

import json
import subprocess
from pathlib import Path

from infra.node import node_path
from sandbox.compiler.declarations import declarations
from sandbox.compiler.prompt import render_prompt
from sandbox.compiler.tokens import estimate_tokens
from sandbox.compiler.typed_tools import typed_tools
from tests.fixtures.recorded import recorded_tools

REPOSITORY = Path(__file__).parents[3]
ENCODERS = ("o200k_base", "cl100k_base")
COUNT = """
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
const count = (name) => {
  const { encode } = require(`gpt-tokenizer/encoding/${name}`);
  return texts.map((text) => encode(text, { disallowedSpecial: new Set() }).length);
};
console.log(JSON.stringify(%s.map(count)));
"""


def counted(texts: list[str]) -> dict[str, list[int]]:
    command = [str(node_path()), "-e", COUNT % json.dumps(ENCODERS)]
    done = subprocess.run(
        command,
        cwd=REPOSITORY / "tests" / "npm",
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(ENCODERS, json.loads(done.stdout), strict=True))


def test_the_estimate_holds_for_real_encoders() -> None:
    tools = recorded_tools()
    typed = typed_tools(tools, [])
    texts = {
        "declarations": declarations(tools),
        **{
            f"prompt {budget}": render_prompt(typed, http=True, budget=budget)
            for budget in (None, 12_000, 3_000)
        },
        "prose": (REPOSITORY / "README.md").read_text(),
        "code": Path(__file__).read_text(),
        "case script": (REPOSITORY / "tests/cases/scripts/01-stale-issues-bump/script.ts").read_text(),
        "other alphabets": "Список задач репозитория. 仓库的问题列表。 リポジトリの課題一覧 🎯 قائمة المشكلات",
    }
    counts = counted(list(texts.values()))
    for encoder, numbers in counts.items():
        for (name, text), number in zip(texts.items(), numbers, strict=True):
            ratio = estimate_tokens(text) / number
            print(f"{name}: {number:,} tokens of {encoder}, estimate {ratio:.2f} times that")
            assert ratio >= 1, (name, encoder)
            assert ratio <= 1.5 or name == "other alphabets", (name, encoder)


def test_the_estimate_is_additive_over_lines() -> None:
    lines = ["a b(c: string) // Does it.\n", "x: 1234567 {…}\n", "\n", "é日本 longerWordThanEight\n"]
    assert estimate_tokens("".join(lines)) <= sum(estimate_tokens(line) for line in lines)
    assert estimate_tokens("") == 0
