"""docs/keys.md: what it tells secret scanners finds our keys and tokens, and nothing else, without asking anybody."""

import re
from collections.abc import Callable
from pathlib import Path

from tenancy import tokens

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "keys.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].rstrip("\n")


def checker() -> Callable[[str], bool]:
    space: dict[str, Callable[[str], bool]] = {}
    exec(block("python"), space)
    return space["is_rewind_secret"]


def test_the_pattern_finds_secrets_in_text() -> None:
    pattern = re.compile(block("regex"))
    for kind in ("key", "token"):
        secret = tokens.mint(kind)  # type: ignore[arg-type]
        for text in (f"KEY={secret}", f'"{secret}",', f"see {secret}."):
            assert pattern.findall(text) == [secret]
    assert pattern.findall("rwk_" + "0" * 48) == []
    assert pattern.findall("rwk_" + "0" * 50) == []


def test_the_checksum_tells_secrets_from_look_alikes() -> None:
    is_ours = checker()
    for _ in range(50):
        secret = tokens.mint("token")
        assert is_ours(secret)
        other = secret[:20] + ("x" if secret[20] != "x" else "y") + secret[21:]
        assert (is_ours(other), tokens.kind_of(other)) == (False, None)
    assert not is_ours("rwk_" + "z" * 49)


def test_the_example_is_one() -> None:
    (example,) = re.findall(block("regex"), PAGE)
    assert tokens.kind_of(example) == "key"
    assert checker()(example)
