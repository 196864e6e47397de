"""Canonical JSON (RFC 8785), digests and the inline limit: equal values have equal bytes everywhere.

Numbers are IEEE 754 doubles, as they are in V8: an integer beyond 2^53 is read as the nearest double. What
I-JSON forbids (lone surrogates, duplicate keys, NaN, Infinity) and what is deeper than DEPTH_MAX is refused
here, before it can reach a journal.
"""

import re
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from json import JSONDecodeError, JSONDecoder, JSONEncoder
from json.encoder import encode_basestring
from typing import NamedTuple, cast

from sandbox.journal.entries import Value
from sandbox.journal.errors import RewindFault
from sandbox.journal.ids import Json, Sha256

INLINE_MAX_BYTES = 65_536
"""Values whose canonical text is longer are kept in the object store, not in the entry."""
DEPTH_MAX = 200
"""Nested arrays and objects, of a value."""
_INTEGER_MAX = 2**53
_PATH_SEGMENTS_MAX = 24


class CanonicalError(RewindFault):
    """A value that has no canonical text, or a text that is not the JSON of one.

    `code` is invalid_json, duplicate_key, number_out_of_range, lone_surrogate, too_deep or not_json; `path`
    is like `items[3].when`, empty for the whole value.
    """

    status = 400

    def __init__(self, path: str, code: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.error_code = code
        self.message = message


_Path = tuple[str | int, ...]
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*\Z", re.ASCII)


def path_text(path: _Path) -> str:
    """Spell a path as a script would: `items[3].when`, `labels["a b"]`; a very long one is cut."""
    parts = [
        f"[{key}]" if isinstance(key, int) else f".{key}" if _IDENTIFIER.match(key) else f"[{_quoted(key)}]"
        for key in path[:_PATH_SEGMENTS_MAX]
    ]
    more = "…" if len(path) > _PATH_SEGMENTS_MAX else ""
    return "".join(parts).removeprefix(".") + more


def _quoted(key: str) -> str:
    return encode_basestring(key.encode("utf-8", "backslashreplace").decode())


def _refusal(path: _Path, code: str, message: str) -> CanonicalError:
    return CanonicalError(path_text(path), code, message)


# -- Writing

_encode_fast: Callable[[object], str] = JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
# What the C encoder writes differently: floats without a fraction or with an exponent, and integers near 2^53 and
# above. It also sorts keys by code points, which matters beside characters beyond the BMP. Inside a string these
# only cost the slow path.
_CAREFUL_NUMBER = re.compile(r"[:,\[]-?[0-9](?:[0-9]{15}|[0-9]*+(?:\.0[],}]|(?:\.[0-9]++)?e))")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def canonical_text(value: object, *, depth_max: int = DEPTH_MAX) -> bytes:
    """Return the RFC 8785 text of a JSON value in UTF-8.

    Errors: CanonicalError with the path of what JSON cannot hold.
    Limits: linear in the text; arrays and objects nest at most depth_max deep.
    """
    try:
        if isinstance(value, dict | list):
            text = _encode_fast(value)
            if not _CAREFUL_NUMBER.search(text) and (text.isascii() or not _ASTRAL.search(text)):
                check_depth(text, depth_max)
                return text.encode()
    except (ValueError, TypeError, RecursionError, CanonicalError):
        pass  # the careful writer says what is wrong and where
    parts: list[str] = []
    _write(value, parts.append, (), depth_max)
    return "".join(parts).encode()


def _write(value: object, put: Callable[[str], None], path: _Path, depth_max: int) -> None:
    if isinstance(value, str):
        put(_string(value, path))
    elif value is None or value is True or value is False:
        put({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, int | float):
        put(_number(value, path))
    elif isinstance(value, list | tuple | dict) and len(path) >= depth_max:
        raise _too_deep(path, depth_max)
    elif isinstance(value, list | tuple):
        separator = "["
        for index, item in enumerate(value):
            put(separator)
            _write(item, put, (*path, index), depth_max)
            separator = ","
        put("]" if value else "[]")
    elif isinstance(value, dict):
        separator = "{"
        for key in _sorted_keys(value, path):
            put(f"{separator}{_string(key, (*path, key))}:")
            _write(value[key], put, (*path, key), depth_max)
            separator = ","
        put("}" if value else "{}")
    else:
        raise _refusal(path, "not_json", f"{type(value).__name__} is no JSON value")


def _sorted_keys(value: dict[str, object], path: _Path) -> list[str]:
    for key in value:
        if not isinstance(key, str):
            raise _refusal(path, "not_json", f"the key {key!r} is no string")
    return sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _string(value: str, path: _Path) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        unit = ord(value[error.start])
        raise _refusal(path, "lone_surrogate", f"holds the lone surrogate U+{unit:04X}") from None
    return encode_basestring(value)


def _number(value: float, path: _Path) -> str:
    if isinstance(value, int) and -_INTEGER_MAX <= value <= _INTEGER_MAX:
        return str(int(value))
    try:
        return number_text(float(value))
    except (OverflowError, ValueError):
        raise _refusal(path, "number_out_of_range", "the number is not a finite double") from None


def number_text(value: float) -> str:
    """Spell a finite double as ECMAScript does; ValueError for NaN and the infinities."""
    if value == 0:
        return "0"
    text = repr(float(value))
    if "n" in text:
        raise ValueError(text)
    mantissa, _, exponent = text.partition("e")
    if not exponent and (abs(value) >= 1e-4 or "." not in text):
        return mantissa.removesuffix(".0")
    sign = "-" if value < 0 else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction.removesuffix("0" if fraction == "0" else "")).lstrip("0")
    power = int(exponent or 0) + len(whole)  # the value is 0.digits × 10^power, up to leading zeros
    power -= len(whole + fraction) - len((whole + fraction).lstrip("0"))
    if -6 < power <= 0:
        return f"{sign}0.{'0' * -power}{digits}"
    if 0 < power <= 21:
        return sign + digits.ljust(power, "0")
    point = "." if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{point}{digits[1:]}e{'+' if power > 0 else '-'}{abs(power - 1)}"


# -- Reading


class _Refused(NamedTuple):
    """Stands in a parsed value where something must be refused, until the walk finds its path."""

    code: str
    message: str


def _object_or_raise(pairs: list[tuple[str, Json]]) -> Json:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result


def _object(pairs: list[tuple[str, Json]]) -> object:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    times = Counter(key for key, _ in pairs)
    twice = next(key for key in result if times[key] > 1)
    return _Refused("duplicate_key", f"the key {_quoted(twice)} is given twice")


def _float(text: str) -> object:
    number = float(text)
    if number - number == 0:
        # Equal values, and what is whole is written by the fast path.
        return int(number) if number.is_integer() and abs(number) < _INTEGER_MAX else number
    return _Refused("number_out_of_range", f"the number {text[:40]} is beyond the largest double")


def _integer(text: str) -> object:
    number = float(text)
    return int(text) if -_INTEGER_MAX <= number <= _INTEGER_MAX else _float(text)


# int() raises ValueError for NaN and the infinities, which are the only constants.
_parse_fast = JSONDecoder(object_pairs_hook=_object_or_raise, parse_constant=int, parse_float=_float).decode
_parse_carefully = JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=lambda text: _Refused("invalid_json", f"{text} is no JSON"),
    parse_float=_float,
    parse_int=_integer,
).decode
_MANY_DIGITS = re.compile(r"[0-9]{16}")
_BIG_EXPONENT = re.compile(r"[eE]\+?[0-9]{3}")


def parse_json(text: bytes | str, *, depth_max: int = DEPTH_MAX) -> Json:
    """Read strict I-JSON.

    Errors: CanonicalError; of code invalid_json when the text is no JSON at all.
    Limits: depth is checked by a linear scan before the parser, which would exhaust the stack, sees the text.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise CanonicalError("", "invalid_json", f"not UTF-8 at byte {error.start}") from None
    check_depth(text, depth_max)
    careful = "\\u" in text or not text.isascii()
    careful = careful or _MANY_DIGITS.search(text) is not None or _BIG_EXPONENT.search(text) is not None
    try:
        if not careful:
            return cast("Json", _parse_fast(text))
    except JSONDecodeError as error:
        raise _invalid(error) from None
    except ValueError:
        pass  # parsed again, this time to say where
    try:
        value = _parse_carefully(text)
    except JSONDecodeError as error:
        raise _invalid(error) from None
    _refuse_marks(value, ())
    return cast("Json", value)


def _invalid(error: JSONDecodeError) -> CanonicalError:
    return CanonicalError("", "invalid_json", f"{error.msg} at line {error.lineno} column {error.colno}")


def _refuse_marks(value: object, path: _Path) -> None:
    if isinstance(value, str):
        if not value.isascii():
            _string(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not key.isascii():
                _string(key, (*path, key))
            _refuse_marks(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_marks(item, (*path, index))
    elif isinstance(value, _Refused):
        raise _refusal(path, value.code, value.message)


# A string, even an unterminated one (possessive, so that the scan stays linear), or a bracket.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[][{}]|[,:]', re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def check_depth(text: str, depth_max: int = DEPTH_MAX) -> None:
    """Refuse a JSON text that nests deeper than depth_max, without parsing it."""
    if text.count("[") + text.count("{") <= depth_max:
        return
    bare = _STRING.sub("", text)
    depth = 0
    for start in range(0, len(bare), 128):
        chunk = bare[start : start + 128]
        opened = chunk.count("[") + chunk.count("{")
        if depth + opened > depth_max:
            highest = depth
            for character in chunk:
                depth += 1 if character in "[{" else -1 if character in "]}" else 0
                highest = max(highest, depth)
            if highest > depth_max:
                raise _too_deep(_deep_path(text, depth_max), depth_max)
        else:
            depth = max(0, depth + opened - chunk.count("]") - chunk.count("}"))


def _too_deep(path: _Path, depth_max: int) -> CanonicalError:
    return _refusal(path, "too_deep", f"arrays and objects nest more than {depth_max} deep")


def _deep_path(text: str, depth_max: int) -> _Path:
    """Find the path of the first array or object that is too deep; only a refusal needs it."""
    path: list[str | int] = []
    key = ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in {"[", "{"}:
            if len(path) >= depth_max:
                break
            path.append(0 if word == "[" else "")
        elif word in "]}":
            del path[-1:]
        elif word == "," and path and isinstance(path[-1], int):
            path[-1] += 1
        elif word == ":" and path and isinstance(path[-1], str):
            path[-1] = key
        elif len(word) > 1:
            key = word[1:-1]
    return tuple(path)


# -- Digests and values


def sha256_hex(data: bytes) -> Sha256:
    return Sha256(sha256(data).hexdigest())


def value_of(value: object) -> Value:
    """Make the value object of a JSON value; the text of a large one is left to its own canonical_text."""
    return value_of_text(canonical_text(value))


def value_of_text(text: bytes) -> Value:
    """Make the value object of a canonical text; above the inline limit it does not hold the text."""
    size = len(text)
    return Value(sha256_hex(text), size, text if size <= INLINE_MAX_BYTES else None)
