"""Secrets: well-formed, told apart, never guessable from what is stored."""

import pytest

from tenancy import tokens


@pytest.mark.parametrize("kind", ["key", "token"])
def test_a_minted_secret_is_of_its_kind(kind: tokens.Kind) -> None:
    secret = tokens.mint(kind)
    assert tokens.kind_of(secret) == kind
    assert len(secret) == 4 + 43 + 6
    assert tokens.mint(kind) != secret


def test_any_mistyped_character_is_noticed() -> None:
    secret = tokens.mint("key")
    for position in range(4, len(secret)):
        other = "0" if secret[position] != "0" else "1"
        assert tokens.kind_of(secret[:position] + other + secret[position + 1 :]) is None


@pytest.mark.parametrize("secret", ["", "rwk_", "rwt_" + "0" * 49, "rwx_" + "0" * 49, "rwk_é" + "0" * 48])
def test_what_is_no_secret(secret: str) -> None:
    assert tokens.kind_of(secret) is None


def test_a_key_is_no_token() -> None:
    secret = tokens.mint("key")
    assert tokens.kind_of("rwt_" + secret[4:]) is None


def test_what_is_stored_does_not_hold_the_secret() -> None:
    secret = tokens.mint("token")
    assert len(tokens.digest(secret)) == 32
    assert tokens.SHOWN < 20
