"""Standard Webhooks: secrets, and the headers that a message is signed with."""

import base64
import datetime as dt
import os

from standardwebhooks.webhooks import Webhook

from sandbox.journal.ids import TimeMs

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(os.urandom(SECRET_BYTES)).decode()


def signed_headers(message_id: str, at: TimeMs, body: str, secrets: list[str]) -> dict[str, str]:
    """The three headers of a delivery; a signature for each secret, so that receivers can change over."""
    moment = dt.datetime.fromtimestamp(at // 1000, dt.UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at // 1000),
        "webhook-signature": " ".join(Webhook(secret).sign(message_id, moment, body) for secret in secrets),
    }
