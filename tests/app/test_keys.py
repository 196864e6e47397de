"""API keys: made, bound to networks, rotated, revoked."""

import httpx2

from tests.fixtures.api import Api
from tests.fixtures.database import Clock


async def test_a_key_is_bound_to_its_networks(api: Api) -> None:
    made = await api.call(
        "POST", "/v1/keys", json={"name": "ci", "allow_ips": ["203.0.113.0/24", "2001:db8::1"]}
    )
    assert made.status_code == 201, made.text
    key = made.json()["key"]
    for address, status in (
        ("203.0.113.9", 200),
        ("::ffff:203.0.113.9", 200),
        ("2001:db8::1", 200),
        ("198.51.100.1", 403),
    ):
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(api.app, client=(address, 1)),
            base_url="http://rewind.test",
            headers={"authorization": f"Bearer {key}"},
        ) as client:
            assert (await client.get("/v1/me")).status_code == status
    mapped = await api.call(
        "POST", "/v1/keys", json={"allow_ips": ["::ffff:203.0.113.0/120", "::ffff:10.0.0.1", "2001:db8::/32"]}
    )
    assert mapped.json()["allow_ips"] == ["203.0.113.0/24", "10.0.0.1/32", "2001:db8::/32"]
    wrong = await api.call("POST", "/v1/keys", json={"allow_ips": ["10.0.0.0/8", "home"]})
    assert wrong.json()["errors"][0]["path"] == "allow_ips[1]"


async def test_a_rotated_key_works_for_the_overlap(own_api: Api, clock: Clock) -> None:
    api = own_api
    made = (await api.call("POST", "/v1/keys", json={"name": "ci"})).json()
    rotated = (await api.call("POST", f"/v1/keys/{made['id']}/rotate", json={"overlap": "1h"})).json()
    assert rotated["key"] != made["key"]
    for secret in (made["key"], rotated["key"]):
        assert (await api.call("GET", "/v1/me", secret=secret)).json()["principal"]["id"] == made["id"]
    clock.advance(3_600_001)
    api.services.authenticator.forget()
    assert (await api.call("GET", "/v1/me", secret=made["key"])).status_code == 401
    assert (await api.call("GET", "/v1/me", secret=rotated["key"])).status_code == 200
    at_once = (await api.call("POST", f"/v1/keys/{made['id']}/rotate", json={"overlap": 0})).json()
    assert (await api.call("GET", "/v1/me", secret=rotated["key"])).status_code == 401
    assert (await api.call("DELETE", f"/v1/keys/{made['id']}")).status_code == 204
    assert (await api.call("GET", "/v1/me", secret=at_once["key"])).status_code == 401


async def test_who_was_not_told_of_a_rotation_rotates_again(own_api: Api, clock: Clock) -> None:
    """The secret that everybody uses works on; and no former one for longer than the last overlap says."""
    api = own_api
    made = (await api.call("POST", "/v1/keys", json={"name": "ci"})).json()
    path = f"/v1/keys/{made['id']}/rotate"
    untold = (await api.call("POST", path, json={"overlap": "2h"})).json()
    told = (await api.call("POST", path, json={"overlap": "1h"})).json()
    secrets = [made["key"], untold["key"], told["key"]]

    async def statuses() -> list[int]:
        api.services.authenticator.forget()
        return [(await api.call("GET", "/v1/me", secret=secret)).status_code for secret in secrets]

    assert await statuses() == [200, 200, 200]
    clock.advance(3_600_001)
    assert await statuses() == [401, 401, 200]
    await api.call("POST", path, json={"overlap": "1h"})
    at_once = (await api.call("POST", path, json={"overlap": 0})).json()
    secrets = [told["key"], at_once["key"]]
    assert await statuses() == [401, 200]


async def test_a_key_takes_over_no_stronger_key(api: Api) -> None:
    weak = (await api.call("POST", "/v1/keys", json={"scopes": ["manage", "runs:read"]})).json()["key"]
    for scopes, status in ((["runs:read"], 200), (["runs:read", "approvals:write"], 403)):
        other = (await api.call("POST", "/v1/keys", json={"scopes": scopes})).json()
        answer = await api.call("POST", f"/v1/keys/{other['id']}/rotate", secret=weak, json={})
        assert answer.status_code == status, answer.text
        assert (await api.call("GET", "/v1/me", secret=other["key"])).status_code == 200


async def test_a_key_makes_no_stronger_key(api: Api) -> None:
    weak = (await api.call("POST", "/v1/keys", json={"scopes": ["manage", "runs:read"]})).json()["key"]
    refused = await api.call("POST", "/v1/keys", json={"scopes": ["runs:write"]}, secret=weak)
    assert refused.status_code == 403
    same = await api.call("POST", "/v1/keys", json={"scopes": ["runs:read"]}, secret=weak)
    assert same.status_code == 201


async def test_an_expired_key_is_refused(own_api: Api, clock: Clock) -> None:
    api = own_api
    past = await api.call("POST", "/v1/keys", json={"expires_at": "2020-01-01T00:00:00Z"})
    assert past.json()["errors"][0]["path"] == "expires_at"
    made = (await api.call("POST", "/v1/keys", json={"expires_at": "2026-12-31T00:00:00Z"})).json()
    assert (await api.call("GET", "/v1/me", secret=made["key"])).status_code == 200
    clock.advance(400 * 86_400_000)
    api.services.authenticator.forget()
    assert (await api.call("GET", "/v1/me", secret=made["key"])).status_code == 401
