"""Webhooks from the recorded event to a receiver that verifies them with the official library."""

import asyncio
import random
from typing import Any

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from app.webhooks.sender import BACKOFF_S, PER_ENDPOINT
from sandbox.journal.entries import ScriptError
from sandbox.store.postgres.connection import acquired
from tenancy.mails.repository import latest_mails
from tests.fixtures.api import Api
from tests.fixtures.database import Clock
from tests.fixtures.receiver import Receiver


async def hook(api: Api, url: str, **fields: Any) -> dict[str, Any]:
    answer = await api.call("POST", "/v1/webhooks", json={"url": url, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def member(api: Api, email: str, role: str) -> None:
    async with acquired(api.store.pool) as connection:
        person = await connection.fetchval(
            "insert into people (id, email, created_at) values (gen_random_uuid(), $1, 0) returning id", email
        )
        await connection.execute("insert into members values ($1, $2, $3, 0)", api.organization, person, role)


async def completed(api: Api, output: Any = 1, **fields: Any) -> str:
    run = await api.start(**fields)
    puppet = await api.puppet(run["id"])
    await puppet.complete(output)
    return str(run["id"])


async def project(api: Api) -> None:
    while await api.services.hooks.projector.project_recorded():
        pass


async def deliver(api: Api) -> None:
    """Everything that is due now, and nothing that is due later."""
    sender = api.services.hooks.sender
    while await sender.deliver_due():
        await sender.drain()


async def tell(api: Api) -> None:
    await project(api)
    await deliver(api)


async def deliveries(api: Api, webhook: str, query: str = "") -> list[dict[str, Any]]:
    answer = await api.call("GET", f"/v1/webhooks/{webhook}/deliveries{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def test_an_ended_run_is_told_as_the_api_shows_it(own_api: Api, receiver: Receiver) -> None:
    api = own_api
    made = await hook(api, receiver.url)
    run = await completed(api, {"closed": 3}, labels={"team": "blue"})
    await tell(api)
    (got,) = receiver.got
    message = got.verified(made["secret"])
    shown = (await api.call("GET", f"/v1/runs/{run}?namespace=acme")).json()
    assert message["data"] == {"run": shown}
    assert (message["type"], message["sequence"], message["id"]) == ("run.completed", 1, got.id)
    (delivery,) = await deliveries(api, made["id"])
    assert delivery["status"] == "delivered"
    assert delivery["response"] == {"code": 200, "body": "thanks ��"}
    async with acquired(api.store.pool) as connection:
        stored = await connection.fetchval(
            "select response_body from deliveries where id = $1", delivery["id"]
        )
    assert stored and b"thanks" not in stored, "what a receiver answers is sealed like what it was told"
    assert (delivery["attempt"], delivery["event_id"], delivery["next_at"]) == (1, got.id, None)
    events = (await api.call("GET", "/v1/events?type=run.completed")).json()
    assert events == {"data": [message], "next": None}


async def test_every_ending_has_its_type(own_api: Api, receiver: Receiver) -> None:
    api = own_api
    made = await hook(api, receiver.url)
    await completed(api)
    failing = await api.puppet((await api.start())["id"])
    await failing.fail(ScriptError("Error", "no", None, 1, 1, "", ""))
    run = await api.start()
    cancelled = await api.puppet(run["id"])
    await api.call("POST", f"/v1/runs/{run['id']}/cancel?namespace=acme", json={})
    await cancelled.cancelled("user", delivered=1)
    await tell(api)
    assert sorted(str(got.verified(made["secret"])["type"]) for got in receiver.got) == [
        "run.cancelled",
        "run.completed",
        "run.failed",
    ]


async def test_an_endpoint_is_told_of_nothing_that_happened_before_it(
    own_api: Api, clock: Clock, receiver: Receiver
) -> None:
    await completed(own_api)
    clock.advance(1)
    made = await hook(own_api, receiver.url)
    after = await completed(own_api)
    await tell(own_api)
    (got,) = receiver.got
    assert got.verified(made["secret"])["data"]["run"]["id"] == after


async def test_filters(own_api: Api, receiver: Receiver) -> None:
    api = own_api
    await hook(api, receiver.url + "/a", namespaces=["other"])
    await hook(api, receiver.url + "/b", labels={"team": "blue"})
    await hook(api, receiver.url + "/c", events=["run.failed"])
    everything = await hook(api, receiver.url + "/d")
    await completed(api, labels={"team": "red"})
    blue = await completed(api, labels={"team": "blue", "x": "y"})
    await tell(api)
    assert len(receiver.got) == 3
    ids = [
        str(got.verified(everything["secret"])["data"]["run"]["id"])
        for got in receiver.got
        if _is(got, everything)
    ]
    assert len(ids) == 2
    assert blue in ids


def _is(got: Any, made: dict[str, Any]) -> bool:
    try:
        got.verified(made["secret"])
    except WebhookVerificationError:
        return False
    return True


async def test_every_event_arrives_whatever_the_receiver_does(
    own_api: Api, clock: Clock, receiver: Receiver
) -> None:
    """500s, resets, redirects, garbage, answers without end: each event at least once, none forged."""
    api = own_api
    made = await hook(api, receiver.url)
    runs = {await completed(api, number) for number in range(6)}
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    receiver.fail([chance.choice([500, 503, 302, 404, "reset", "garbage", 429]) for _ in range(20)])
    await project(api)
    for wait_s in BACKOFF_S:
        await deliver(api)
        clock.advance(wait_s * 1_200)
    await deliver(api)
    told = {str(got.signed_with(made["secret"])["data"]["run"]["id"]) for got in receiver.got}
    assert told == runs, f"seed {seed}"
    assert all(found["status"] == "delivered" for found in await deliveries(api, made["id"])), f"seed {seed}"
    assert len(receiver.got) == 26


async def test_three_days_of_failures_are_enough(own_api: Api, clock: Clock, receiver: Receiver) -> None:
    api = own_api
    made = await hook(api, receiver.url)
    await completed(api)
    receiver.fail([500] * (len(BACKOFF_S) + 1))
    await project(api)
    for wait_s in BACKOFF_S:
        await deliver(api)
        (pending,) = await deliveries(api, made["id"])
        assert (pending["status"], pending["response"]["code"]) == ("pending", 500)
        clock.advance(wait_s * 1_200)
    await deliver(api)
    (failed,) = await deliveries(api, made["id"], "?status=failed")
    assert (failed["attempt"], failed["next_at"]) == (len(BACKOFF_S) + 1, None)
    assert 2.8 * 86_400 < sum(BACKOFF_S) < 3.2 * 86_400
    again = await api.call("POST", f"/v1/webhooks/{made['id']}/deliveries/{failed['id']}/redeliver")
    assert again.json()["status"] == "pending"
    await deliver(api)
    (delivered,) = await deliveries(api, made["id"])
    assert delivered["status"] == "delivered"
    assert receiver.got[0].id == receiver.got[-1].id


async def test_an_endpoint_that_fails_for_five_days_is_switched_off(
    own_api: Api, clock: Clock, receiver: Receiver
) -> None:
    api = own_api
    for email, role in (
        ("ann@example.com", "owner"),
        ("bob@example.com", "owner"),
        ("cy@example.com", "admin"),
    ):
        await member(api, email, role)
    made = await hook(api, receiver.url)
    receiver.fail([500] * 3)
    await completed(api)
    await tell(api)
    assert (await api.call("GET", f"/v1/webhooks/{made['id']}")).json()["failing_since"] is not None
    clock.advance(5 * 86_400_000 + 1)
    await completed(api)
    await tell(api)
    shown = (await api.call("GET", f"/v1/webhooks/{made['id']}")).json()
    assert (shown["enabled"], shown["disabled_reason"]) == (False, "every delivery failed for five days")
    assert [found["status"] for found in await deliveries(api, made["id"])] == ["failed", "failed"]
    async with acquired(api.store.pool) as connection:
        mails = await latest_mails(connection, 10)
    assert sorted(mail.recipient for mail in mails) == ["ann@example.com", "bob@example.com"]
    assert all(
        receiver.url in mail.body and f"PATCH /v1/webhooks/{made['id']}" in mail.body for mail in mails
    )
    assert receiver.url in (await api.call("GET", "/dev/mails", secret="")).text
    sent = len(receiver.got)
    await completed(api)
    await tell(api)
    assert len(receiver.got) == sent
    async with acquired(api.store.pool) as connection:
        assert len(await latest_mails(connection, 10)) == 2
    receiver.faults.clear()
    changed = await api.call("PATCH", f"/v1/webhooks/{made['id']}", json={"enabled": True})
    assert (changed.json()["enabled"], changed.json()["failing_since"]) == (True, None)
    again = await api.call("POST", f"/v1/webhooks/{made['id']}/redeliver", json={})
    assert again.json() == {"redelivered": 2}
    await deliver(api)
    assert [found["status"] for found in await deliveries(api, made["id"])] == ["delivered", "delivered"]


async def test_a_rotation_signs_with_both_secrets(own_api: Api, clock: Clock, receiver: Receiver) -> None:
    api = own_api
    made = await hook(api, receiver.url)
    rotated = (await api.call("POST", f"/v1/webhooks/{made['id']}/rotate", json={"overlap": "1h"})).json()
    assert rotated["secret"] != made["secret"]
    await completed(api)
    await tell(api)
    receiver.got[0].signed_with(made["secret"])
    receiver.got[0].signed_with(rotated["secret"])
    clock.advance(3_600_001)
    await completed(api)
    await project(api)
    async with acquired(api.store.pool) as connection:
        at = await connection.fetchval("select now_ms()")
    await deliver(api)
    assert abs(int(receiver.got[1].headers["webhook-timestamp"]) - at / 1000) < 60
    assert len(receiver.got[1].headers["webhook-signature"].split()) == 1


async def test_a_forged_message_is_none(own_api: Api, receiver: Receiver) -> None:
    api = own_api
    made = await hook(api, receiver.url)
    await completed(api)
    await tell(api)
    (got,) = receiver.got
    got.body = got.body.replace(b"run.completed", b"run.cancelled")
    with pytest.raises(WebhookVerificationError):
        got.verified(made["secret"])


async def test_a_slow_endpoint_holds_up_nobody_else(own_api: Api, receiver: Receiver) -> None:
    api = own_api
    await hook(api, receiver.url)
    for number in range(PER_ENDPOINT * 3):
        await completed(api, number)
    receiver.fail(["hang"] * PER_ENDPOINT * 3)
    await project(api)
    sender = api.services.hooks.sender
    assert await sender.deliver_due() == PER_ENDPOINT
    assert await sender.deliver_due() == 0
    while receiver.at_once < PER_ENDPOINT:  # so many have arrived, and hang
        await receiver.arrived.wait()
        receiver.arrived.clear()
    receiver.faults.clear()
    quick = await hook(api, receiver.url)
    await api.call("POST", f"/v1/webhooks/{quick['id']}/ping")
    await project(api)
    assert await sender.deliver_due() == 1
    while not any(found["status"] == "delivered" for found in await deliveries(api, quick["id"])):
        await asyncio.wait(sender._tasks, return_when=asyncio.FIRST_COMPLETED)
    receiver.release.set()
    await sender.drain()


async def test_an_attempt_that_nobody_reports_is_made_again(
    own_api: Api, clock: Clock, receiver: Receiver
) -> None:
    """As when the process is killed between the request and the record of it."""
    api = own_api
    made = await hook(api, receiver.url)
    await completed(api)
    await project(api)
    hooks = api.services.hooks
    await hooks.sender._deliveries.claim(10, per_endpoint=4, per_organization=16, lease_ms=30_000)
    assert await hooks.sender.deliver_due() == 0
    clock.advance(30_001)
    await deliver(api)
    (delivery,) = await deliveries(api, made["id"])
    assert (delivery["status"], delivery["attempt"]) == ("delivered", 2)


async def test_two_projectors_make_one_delivery(api: Api, receiver: Receiver) -> None:
    made = await hook(api, receiver.url)
    await completed(api)
    projector = api.services.hooks.projector
    await asyncio.gather(*(projector.project_recorded() for _ in range(4)))
    assert len(await deliveries(api, made["id"])) == 1


async def test_a_ping_goes_to_one_endpoint(own_api: Api, receiver: Receiver) -> None:
    api = own_api
    made, other = await hook(api, receiver.url, events=["ping"]), await hook(api, receiver.url)
    asked = await api.call("POST", f"/v1/webhooks/{made['id']}/ping")
    assert asked.status_code == 202
    await tell(api)
    (got,) = receiver.got
    message = got.verified(made["secret"])
    assert (message["type"], message["sequence"], message["id"]) == ("ping", None, asked.json()["event_id"])
    assert await deliveries(api, other["id"]) == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/x", "example.com", "http://example.com/hook", "https://user:pass@example.com/",
        "https://10.0.0.1/", "https://169.254.169.254/latest", "https://[::1]/", "https://printer.local/",
        "https://example.com/#x", "https://", "https://[bad/", "https://example.com:99999/",
    ],
)  # fmt: skip
async def test_urls_that_cannot_be_used(api: Api, url: str) -> None:
    answer = await api.call("POST", "/v1/webhooks", json={"url": url})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["path"] == "url"


async def test_a_private_address_is_refused_when_connecting(api: Api) -> None:
    """A public name may resolve to an address that is not: then nothing is sent, and the delivery says so."""
    made = await hook(api, "https://2130706434.example.invalid./x")
    await api.call("POST", f"/v1/webhooks/{made['id']}/ping")
    await tell(api)
    (delivery,) = await deliveries(api, made["id"])
    assert (delivery["status"], delivery["response"]) == ("pending", None)
    assert "resolved" in delivery["error"]


async def test_the_same_key_makes_one_endpoint(api: Api, receiver: Receiver) -> None:
    headers, body = {"Idempotency-Key": "one"}, {"url": receiver.url}
    first = await api.call("POST", "/v1/webhooks", json=body, headers=headers)
    again = await api.call("POST", "/v1/webhooks", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == {key: value for key, value in first.json().items() if key != "secret"}
    other = await api.call("POST", "/v1/webhooks", json={"url": receiver.url + "2"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


async def test_what_is_deleted_gets_nothing_more(api: Api, receiver: Receiver) -> None:
    made = await hook(api, receiver.url)
    await completed(api)
    await project(api)
    assert (await api.call("DELETE", f"/v1/webhooks/{made['id']}")).status_code == 204
    await deliver(api)
    assert receiver.got == []
    assert (await api.call("GET", f"/v1/webhooks/{made['id']}/deliveries")).status_code == 404


async def test_secrets_and_messages_are_sealed_at_rest(api: Api, receiver: Receiver) -> None:
    made = await hook(api, receiver.url)
    await completed(api, "planted-output-of-a-customer")
    await tell(api)
    async with acquired(api.store.pool) as connection:
        body = await connection.fetchval(
            "select body from events where organization_id = $1", api.organization
        )
        secret = await connection.fetchval(
            "select secret from webhook_endpoints where organization_id = $1", api.organization
        )
    assert b"planted-output" not in body
    assert made["secret"].encode() not in secret
    assert (await api.call("GET", f"/v1/webhooks/{made['id']}")).json().get("secret") is None


async def test_old_events_go(own_api: Api, clock: Clock, receiver: Receiver) -> None:
    api = own_api
    made = await hook(api, receiver.url)
    await completed(api)
    await tell(api)
    repository = api.services.hooks.projector._log
    assert await repository.delete_old() == 0
    clock.advance(30 * 86_400_000 + 1)
    assert await repository.delete_old() == 1
    assert await deliveries(api, made["id"]) == []
    assert (await api.call("GET", "/v1/events")).json() == {"data": [], "next": None}
