"""The verb `listen`: what webhooks would be told, forwarded to an address of this machine while it is developed.

The server needs no way to this machine: events are read from it, and signed here as the server signs.
"""

import argparse
import base64
import hashlib
import hmac
import secrets
import threading
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import orjson

from rewind import webhooks
from rewind._cli_base import Console, Usage, remote_verb
from rewind._client import Rewind
from rewind._core import Call
from rewind._errors import WebhookVerificationError

EVERY_S = 1.0
PAGE = 100
PAGES_MAX = 10
"""Of one look: whoever has more events than this in a second sees the newest."""
KNOWN_MAX = 10_000
TIMEOUT_S = 15.0


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    listen = remote_verb(
        verbs, "listen", listen_and_forward, help="forward webhook events to a local address"
    )
    listen.set_defaults(all_namespaces=True)
    listen.add_argument("--forward-to", metavar="URL", required=True, help="where each event is sent by POST")
    listen.add_argument("--type", metavar="TYPE", help="only these events, such as run.completed")
    listen.add_argument(
        "--secret", metavar="whsec_…", help="to sign with; absent: a new one, which is printed"
    )
    listen.add_argument("--count", type=int, metavar="N", help="end after so many events")


def listen_and_forward(arguments: argparse.Namespace, client: Rewind, console: Console) -> int:
    target = urlsplit(arguments.forward_to)
    if target.scheme not in {"http", "https"} or not target.hostname:
        raise Usage("--forward-to takes the URL of your endpoint, such as http://127.0.0.1:3000/hooks")
    if arguments.count is not None and arguments.count < 1:
        raise Usage("--count takes a number from 1")
    secret = arguments.secret or webhooks.PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    try:
        webhooks.key_of(secret)
    except WebhookVerificationError as error:
        raise Usage(f"--secret: {error}") from None
    feed = _Feed(client, arguments.type, arguments.namespace)
    feed.news()  # what was before is told to nobody
    console.note(f"forwarding to {arguments.forward_to}; the signing secret is {secret}. Ctrl-C ends it.")
    pause = threading.Event()
    left = arguments.count
    while True:
        for event in feed.news():
            _tell(event, arguments.forward_to, secret, arguments, console)
            left = None if left is None else left - 1
            if left == 0:
                return 0
        pause.wait(EVERY_S)


class _Feed:
    """Events in the order in which they came, each once."""

    def __init__(self, client: Rewind, type_: str | None, namespace: str | None) -> None:
        self._client = client
        self._query = {"type": type_, "namespace": namespace, "limit": PAGE}
        self._known: dict[str, None] = {}

    def news(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = None
        for _ in range(PAGES_MAX if self._known else 1):
            call = Call(method="GET", path="/v1/events", query={**self._query, "after": after})
            page = self._client._core.call(call, {}).data
            fresh = [event for event in page["data"] if event["id"] not in self._known]
            found += fresh
            after = page["next"]
            if after is None or len(fresh) < len(page["data"]):
                break
        found.reverse()
        self._known.update(dict.fromkeys(event["id"] for event in found))
        for known in list(self._known)[: max(0, len(self._known) - KNOWN_MAX)]:
            del self._known[known]
        return found


def _tell(
    event: dict[str, Any], url: str, secret: str, arguments: argparse.Namespace, console: Console
) -> None:
    """Send it once and say what came of it: an endpoint in development is often not there."""
    body, at = orjson.dumps(event), str(int(time.time()))
    signed = f"{event['id']}.{at}.".encode() + body
    signature = base64.b64encode(hmac.digest(webhooks.key_of(secret), signed, hashlib.sha256)).decode()
    headers = {
        "Content-Type": "application/json",
        "webhook-id": event["id"],
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{signature}",
    }
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310 (checked above)
    code, error = None, None
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            code = answer.status
    except urllib.error.HTTPError as refusal:
        code = refusal.code
    except OSError as failure:
        error = str(getattr(failure, "reason", failure))
    if arguments.json:
        console.json({"id": event["id"], "type": event["type"], "status": code, "error": error})
    else:
        console.line(f"{event['timestamp']}  {event['type']:<20} {code if error is None else error}")


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without the environment's proxies: what is developed is near."""
