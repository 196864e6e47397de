"""Domains that an organization proves to be its own, by a TXT record that only their owner can make."""

from typing import Protocol

import dns.asyncresolver
import dns.exception
import dns.resolver

from sandbox.journal.errors import ApiError, FieldError, Unavailable

LOOK_UP_S = 10.0
RECORD = "_rewind-challenge"
PREFIX = "rewind-domain="
RECORDS_MAX = 100


class TxtResolver(Protocol):
    async def txt(self, name: str) -> list[str]:
        """The TXT records of a name; none where there is no such name. Errors: Unavailable."""
        ...


class DnsResolver:
    """Asks the resolvers of this machine."""

    async def txt(self, name: str) -> list[str]:
        try:
            answer = await dns.asyncresolver.resolve(name, "TXT", lifetime=LOOK_UP_S, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except (dns.exception.DNSException, OSError) as error:
            raise Unavailable(f"the name servers of {name} do not answer") from error
        records = list(answer)[:RECORDS_MAX]
        return [b"".join(record.strings).decode("utf-8", "replace") for record in records]


def checked_domain(text: str) -> str:
    """A domain as the part of addresses after the @ is compared. Errors: ApiError naming the field."""
    name = text.strip().rstrip(".").lower().removeprefix("@")
    try:
        ascii_ = name.encode("idna").decode() if name else ""
    except UnicodeError:
        ascii_ = ""
    labels = ascii_.split(".")
    allowed = all(label.replace("-", "").isalnum() and not label.startswith("-") for label in labels)
    if len(labels) < 2 or len(ascii_) > 253 or not allowed or labels[-1].isdigit():
        message = "Give the domain of your addresses, such as example.com"
        raise ApiError(message, errors=[FieldError("domain", "invalid_value", message)])
    return name


def record_name(domain: str) -> str:
    return f"{RECORD}.{domain.encode('idna').decode()}"


def record_value(token: str) -> str:
    return PREFIX + token
