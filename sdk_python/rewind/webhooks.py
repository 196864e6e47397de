"""Verify what Rewind sends to a webhook endpoint: signed by the Standard Webhooks scheme.

    message = rewind.webhooks.verify(request.body, request.headers, secret)

Give it the body's bytes as they came; a body that was parsed and written again has another signature.
"""

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from typing import Any

import orjson

from rewind._errors import WebhookVerificationError

PREFIX = "whsec_"
TOLERANCE_S = 300
"""How far a message's time may be from the receiver's clock."""
SIGNATURES_MAX = 200
_TIMESTAMP = re.compile(r"[0-9]{1,15}")


def verify(
    body: bytes | str, headers: Mapping[str, str], secret: str | bytes | None, *, now: float | None = None
) -> dict[str, Any]:
    """The message, when it is genuine and recent.

    `headers` of any framework, names in any case. `now`: seconds, for tests.

    Errors: WebhookVerificationError, and nothing else, whatever arrives. Answer 400 then: the sender will
    try again.
    """
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)
    found = {str(name).lower(): str(value) for name, value in headers.items()}
    try:
        message_id, timestamp, signatures = (
            found["webhook-id"], found["webhook-timestamp"], found["webhook-signature"]
        )  # fmt: skip
    except KeyError as error:
        raise WebhookVerificationError(f"the header {error.args[0]} is missing") from None
    if not message_id:
        raise WebhookVerificationError("the header webhook-id is empty")
    if _TIMESTAMP.fullmatch(timestamp) is None or not timestamp.isascii():
        raise WebhookVerificationError("webhook-timestamp is no number of seconds")
    clock = time.time() if now is None else now
    if abs(clock - int(timestamp)) > TOLERANCE_S:
        raise WebhookVerificationError(
            f"the message's time is more than {TOLERANCE_S // 60} minutes from this clock"
        )
    signed = message_id.encode("utf-8", "surrogatepass") + b"." + timestamp.encode() + b"." + raw
    expected = hmac.digest(key_of(secret), signed, hashlib.sha256)
    if not any(_equals(expected, one) for one in signatures.split(" ")[:SIGNATURES_MAX]):
        raise WebhookVerificationError(
            "no signature fits: is this the endpoint's secret, and the body as it came?"
        )
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise WebhookVerificationError("the body is no JSON") from None
    if not isinstance(message, dict):
        raise WebhookVerificationError("the body is no JSON object")
    return message


def key_of(secret: str | bytes | None) -> bytes:
    """The key in a webhook secret. Errors: WebhookVerificationError when it is none."""
    try:
        text = secret.decode() if isinstance(secret, bytes) else str(secret or "")
        key = base64.b64decode(text.removeprefix(PREFIX) + "==")
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise WebhookVerificationError("the secret is no webhook secret: it begins with whsec_")
    return key


def _equals(expected: bytes, signature: str) -> bool:
    version, _, text = signature.partition(",")
    if version != "v1":
        return False
    try:
        given = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return hmac.compare_digest(expected, given)
