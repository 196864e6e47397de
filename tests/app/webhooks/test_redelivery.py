"""Deliveries are made again by what a filter finds."""

from tests.app.webhooks.test_webhooks import completed, deliver, hook, tell
from tests.fixtures.api import Api
from tests.fixtures.receiver import Receiver


async def test_what_is_delivered_again_is_filtered(own_api: Api, receiver: Receiver) -> None:
    api = own_api
    made = await hook(api, receiver.url)
    await completed(api)
    await api.call("POST", f"/v1/webhooks/{made['id']}/ping")
    await tell(api)
    first = {got.id for got in receiver.got}
    for body, count in [
        ({}, 0),  # none has failed
        ({"status": "delivered", "type": "run.failed"}, 0),
        ({"status": "delivered", "to": "2020-01-01T00:00:00Z"}, 0),
        ({"status": "delivered", "from": "2999-01-01T00:00:00Z"}, 0),
        ({"status": "delivered", "type": "ping"}, 1),
        ({"status": "delivered", "from": "2020-01-01T00:00:00Z", "to": "2999-01-01T00:00:00Z"}, 2),
    ]:
        receiver.got.clear()
        again = await api.call("POST", f"/v1/webhooks/{made['id']}/redeliver", json=body)
        assert again.json() == {"redelivered": count}, body
        await deliver(api)
        assert len(receiver.got) == count
        assert {got.id for got in receiver.got} <= first, "the same messages, by the same ids"
        for got in receiver.got:
            got.verified(made["secret"])
