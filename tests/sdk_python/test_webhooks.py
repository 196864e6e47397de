"""`rewind.webhooks.verify` against the vectors of the scheme, and against whatever may arrive."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
import rewind
from hypothesis import given
from hypothesis import strategies as st
from rewind import WebhookVerificationError, webhooks
from standardwebhooks.webhooks import Webhook

CASES = Path(__file__).parents[1] / "cases" / "webhooks"
VERIFY = json.loads((CASES / "verify-vectors.json").read_text())
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize("case", VERIFY, ids=[case["name"] for case in VERIFY])
def test_vectors(case: dict[str, Any]) -> None:
    def verified() -> bool:
        try:
            webhooks.verify(case["payload"], case["headers"], case["secret"], now=case["now"])
        except WebhookVerificationError:
            return False
        return True

    assert verified() == (case["expect"] == "accept")


def test_the_message_is_returned() -> None:
    body = '{"type":"ping","data":{}}'
    at = dt.datetime.fromtimestamp(1_768_467_600, dt.UTC)
    headers = {
        "Webhook-Id": "m",
        "Webhook-Timestamp": "1768467600",
        "Webhook-Signature": Webhook(SECRET).sign("m", at, body),
    }
    assert webhooks.verify(body.encode(), headers, SECRET, now=1_768_467_600) == {"type": "ping", "data": {}}
    assert rewind.Rewind(api_key="rwk_x", base_url="http://127.0.0.1:1").webhooks.verify is webhooks.verify


@given(
    st.binary() | st.text(),
    st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()),
    st.text() | st.just(SECRET),
)
def test_whatever_arrives_is_refused_in_one_way(body: bytes, headers: dict[str, str], secret: str) -> None:
    with pytest.raises(WebhookVerificationError):
        webhooks.verify(body, headers, secret, now=1_768_467_600)
