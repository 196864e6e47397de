"""How many tokens a text is to a language model, as an estimate that needs no vocabulary and no network.

`rewind-estimate-1` splits a text as the byte-pair encoders of today do (words with their space, up to three
digits, runs of punctuation) and counts long words and runs as several tokens. For declarations, prompts and prose
it came to 1.16 to 1.27 times the count of o200k_base and of cl100k_base (indented code 1.5, other alphabets more),
so a budget that holds here holds there, with room for encoders that cut finer. `tests/sandbox/compiler/test_tokens.py` compares them.
"""

import re

TOKENIZER = "rewind-estimate-1"
_PIECES = re.compile(r" ?[A-Z]?[a-z]+|[A-Z]+|\d{1,3}|[^\sA-Za-z0-9]+|\n+|[^\S\n]+")
_WORD_CHARS = 8
"""A word up to this long is one token; of longer ones, each _PART_CHARS are."""
_PART_CHARS = 6
_RUN_CHARS = 2
"""Characters of punctuation to a token."""


def estimate_tokens(text: str) -> int:
    """Additive over lines: the estimate of a text is that of its lines, each with its line end."""
    return sum(_piece(match.group().strip(" ")) for match in _PIECES.finditer(text))


def _piece(piece: str) -> int:
    if not piece:
        return 1
    if not piece.isascii():
        return sum(1 if char.isascii() else 2 for char in piece)
    if piece[0].isalpha():
        return 1 if len(piece) <= _WORD_CHARS else -(-len(piece) // _PART_CHARS)
    return 1 if piece[0].isdigit() or piece.isspace() else -(-len(piece) // _RUN_CHARS)
