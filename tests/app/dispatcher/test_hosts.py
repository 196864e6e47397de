"""Host patterns of the `http` tool."""

import pytest

from app.dispatcher.hosts import HostPattern
from app.dispatcher.http_request import HttpSpec, RequestRefused, checked_url


@pytest.mark.parametrize(
    ("pattern", "scheme", "host", "port", "fits"),
    [
        ("api.example.com", "https", "api.example.com", None, True),
        ("api.example.com", "https", "api.example.com", 8443, True),
        ("API.example.com.", "https", "api.example.com", None, True),
        ("api.example.com", "https", "api.example.com.", None, True),
        ("api.example.com", "https", "x.api.example.com", None, False),
        ("api.example.com", "https", "api.example.com.evil.net", None, False),
        ("*.example.com", "https", "a.b.example.com", None, True),
        ("*.example.com", "https", "example.com", None, False),
        ("*.example.com", "https", "evilexample.com", None, False),
        ("example.com:443", "https", "example.com", None, True),
        ("example.com:443", "http", "example.com", None, False),
        ("example.com:8080", "http", "example.com", 8080, True),
        ("example.com:*", "http", "example.com", 1, True),
        ("*", "http", "anything.test", 1, True),
        ("*:443", "https", "anything.test", None, True),
        ("*:443", "http", "anything.test", None, False),
        ("bücher.example", "https", "xn--bcher-kva.example", None, True),
        ("[2001:db8::1]", "https", "2001:db8:0::1", None, True),
        ("[2001:db8::1]:8443", "https", "2001:db8::1", 8443, True),
        ("203.0.113.7", "https", "203.0.113.7", None, True),
    ],
)
def test_patterns(pattern: str, scheme: str, host: str, port: int | None, *, fits: bool) -> None:
    assert HostPattern.parse(pattern).matches(scheme, host, port) is fits


@pytest.mark.parametrize(
    "pattern",
    ["", "https://x", "x/y", "u@x", "x:y", "x:0", "x:70000", "::1", "[x]", "*x.com", "a..b", "-a", "x" * 301],
)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        HostPattern.parse(pattern)


ALLOWED = HttpSpec(("api.example.com", "*.trusted.org:443", "203.0.113.7"), {})


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.com#@api.example.com/",
        "https://evil.com?@api.example.com/",
        "https://api.example.com%2eevil.com/",
        "https://api.example.com%00.evil.com/",
        "https://api.example.com。evil.com/",
        "https://api.example.com../",
        "https://api.example.com;.evil.com/",
        "https://api.example.com,evil.com/",
        "https://[::ffff:203.0.113.7]/",
        "https://3405803783/",
        "https://0xcb007107/",
        "https://203.0.113.7%2f.evil.com/",
        "https://evil.trusted.org:444/",
        "http://x.trusted.org/",
        "https://trusted.org/",
        "https://eviltrusted.org/",
        "https://x.trusted.org.evil.com/",
    ],
)
def test_no_spelling_of_another_host_is_allowed(url: str) -> None:
    """What is compared is what is connected to: the host of the parsed URL."""
    assert not ALLOWED.permits(checked_url(url))


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com@evil.com/",
        "https://evil.com\\@api.example.com/",
        "https://api.example.com:80@evil.com/",
        "https://api.example.com\t.evil.com/",
        "https://api.example.com\n.evil.com/",
        "https://ａpi.example.com/",
        "https://x.truﬆed.org/",
        "https:/\\evil.com/",
        "https:evil.com",
        "//evil.com",
        "https://api.example.com:443:80/",
    ],
)
def test_what_two_readers_would_read_differently_is_no_url(url: str) -> None:
    with pytest.raises(RequestRefused):
        checked_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://API.EXAMPLE.COM./",
        "https://api。example。com/",
        "https://x.trusted.org/",
        "https://203.0.113.7:1/",
    ],
)
def test_the_same_host_is_allowed(url: str) -> None:
    assert ALLOWED.permits(checked_url(url))
