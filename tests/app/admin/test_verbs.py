"""`rewind admin`: what operators type, as a process's arguments, and what their customers see of it."""

import asyncio
import json
from typing import Any

import pytest

from app.cli import main
from app.verbs import OK, REFUSED, UNREACHABLE, USAGE
from sandbox.store.postgres.connection import acquired
from tests.app.test_people import Browser
from tests.fixtures.api import EPOCH, SCRIPT, Api
from tests.fixtures.database import Clock, new_database
from tests.fixtures.keys import data_key_file

pytestmark = pytest.mark.usefixtures("operating")


@pytest.fixture
def operating(own_api: Api, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of an operator of this database."""
    monkeypatch.setenv("REWIND_DATABASE_URL", own_api.url)
    monkeypatch.setenv("REWIND_DATA", str(tmp_path))
    monkeypatch.setenv("REWIND_DATA_KEY_FILE", str(data_key_file(tmp_path)))
    monkeypatch.setenv("REWIND_OPERATOR", "ann@operators")


class Admin:
    """Types `rewind admin …`; what it printed is read as JSON."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    async def __call__(self, *arguments: str, code: int = OK) -> Any:
        out, err = await self.text(*arguments, "--json", code=code)
        return json.loads(out) if code == OK else err

    async def text(self, *arguments: str, code: int = OK) -> tuple[str, str]:
        # In a thread: the verbs run a loop of their own.
        self._capsys.readouterr()
        found = await asyncio.to_thread(main, ["admin", *arguments])
        out, err = self._capsys.readouterr()
        assert found == code, (out, err)
        return out, err


@pytest.fixture
def admin(capsys: pytest.CaptureFixture[str]) -> Admin:
    return Admin(capsys)


async def lines(api: Api, query: str = "") -> list[dict[str, Any]]:
    answer = await api.call("GET", f"/v1/audit?limit=200{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def test_organizations_are_listed_and_shown(own_api: Api, admin: Admin) -> None:
    await own_api.start()
    made = await admin("organizations", "create", "Globex")
    listed = (await admin("organizations", "list"))["data"]
    assert listed[0]["name"] == "Globex", "newest first"
    (ours,) = [one for one in listed if one["id"] == own_api.organization]
    assert (ours["status"], ours["plan"], ours["namespaces"], ours["active_runs"]) == ("active", "open", 1, 1)
    page = await admin("organizations", "list", "--limit", "1")
    assert page["next"] == made["organization"]
    rest = await admin("organizations", "list", "--after", page["next"])
    assert [one["id"] for one in rest["data"]] == [own_api.organization]
    assert len((await admin("organizations", "list", "--search", "globe"))["data"]) == 1
    shown = await admin("organizations", "show", "Globex")
    assert (shown["id"], shown["keys"], shown["owners"], shown["quarantined_runs"]) == (
        made["organization"], 1, [], 0
    )  # fmt: skip
    text, _ = await admin.text("organizations", "list")
    assert text.splitlines()[0].split() == [
        "ID", "NAME", "PLAN", "STATUS", "MEMBERS", "NAMESPACES", "ACTIVE", "RUNS", "CREATED"
    ]  # fmt: skip
    one, _ = await admin.text("organizations", "show", own_api.organization)
    assert "active runs  1" in one and "this month   1 runs" in one


async def test_what_there_is_not_is_said_so(own_api: Api, admin: Admin) -> None:
    for arguments in (
        ("organizations", "show", "Nobody"),
        ("organizations", "show", "01890000-0000-7000-8000-000000000000"),
        ("organizations", "suspend", "Nobody", "--reason", "x", "--yes"),
        ("organizations", "resume", "Nobody"),
        ("plan", "set", "Nobody", "free"),
        ("namespaces", "list", "Nobody"),
        ("impersonate", "Nobody", "--reason", "x"),
    ):
        err = await admin(*arguments, code=REFUSED)
        assert "There is no organization" in err and "organizations list" in err
    err = await admin("quarantine", "release", "no-run", "--reason", "x", code=REFUSED)
    assert "There is no run 'no-run'" in err
    assert "There is no worker '7'" in await admin("workers", "drain", "7", code=REFUSED)
    assert "There is no namespace 'x'" in await admin(
        "namespaces", "resume", own_api.organization, "x", code=REFUSED
    )
    assert "free, team" in await admin("plan", "set", own_api.organization, "gold", code=REFUSED)
    for name in ("Twin", "Twin"):
        await admin("organizations", "create", name)
    assert "Several organizations have this name" in await admin(
        "organizations", "show", "Twin", code=REFUSED
    )
    assert "--reason" in await admin("organizations", "suspend", own_api.organization, "--yes", "--reason", " ", code=REFUSED)  # fmt: skip


async def test_a_database_that_is_away(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWIND_DATABASE_URL", "postgresql://x@127.0.0.1:1/x")
    assert "not reachable" in await admin("organizations", "list", code=UNREACHABLE)


async def test_a_database_without_rewind(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    with new_database(postgres_url, template="template1") as url:
        monkeypatch.setenv("REWIND_DATABASE_URL", url)
        assert "rewind db upgrade" in await admin("organizations", "list", code=REFUSED)


@pytest.mark.parametrize(
    "arguments",
    [
        ("organizations", "suspend", "ORGANIZATION", "--reason", "unpaid"),
        ("namespaces", "suspend", "ORGANIZATION", "acme", "--reason", "loud"),
        ("quarantine", "abandon", "RUN", "--reason", "hopeless"),
    ],
)
async def test_what_cannot_be_taken_back_is_asked_for(
    own_api: Api, admin: Admin, arguments: tuple[str, ...]
) -> None:
    run = (await own_api.start())["id"]
    await admin("quarantine", run, "--reason", "a drill")
    places = {"ORGANIZATION": own_api.organization, "RUN": run}
    before = await lines(own_api)
    err = await admin(*(places.get(text, text) for text in arguments), code=USAGE)
    assert "--yes" in err
    assert await lines(own_api) == before


async def test_a_suspended_organization_stands_still_and_goes_on(own_api: Api, admin: Admin) -> None:
    await own_api.toolset("support", "echo")
    run = await own_api.start(toolset="support")
    puppet = await own_api.puppet(run["id"])
    await puppet.call_tool("echo", {})
    await own_api.call("PUT", "/v1/namespaces/own", json={})
    await own_api.call("POST", "/v1/namespaces/own/suspend")
    token = await own_api.token("acme")
    asked = await admin("organizations", "suspend", own_api.organization, "--reason", "Unpaid.", code=USAGE)
    assert "Members: 0, active runs: 1." in asked
    suspended = await admin("organizations", "suspend", own_api.organization, "--reason", "Unpaid.", "--yes")
    assert (suspended["status"], suspended["suspended_reason"]) == ("suspended", "Unpaid.")
    own_api.services.tenancy.forget()  # else for up to a second, as elsewhere
    for secret in (own_api.key, token):
        for method, path, body in (("GET", "/v1/runs", None), ("POST", "/v1/runs", {"script": SCRIPT})):
            query = "?namespace=acme" if secret == own_api.key else ""
            answer = await own_api.call(method, path + query, secret=secret, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "organization_suspended")
            assert "Unpaid" in answer.json()["detail"] and "resumes it" in answer.json()["detail"]
    claim = await own_api.call("POST", "/v1/tasks/claim", json={"max": 1})
    assert claim.json()["code"] == "organization_suspended"
    with pytest.raises(AssertionError):  # its runs have lost their owners
        await puppet.append_log("on")
    async with acquired(own_api.store.pool) as connection:
        assert await puppet._owner.claim_runs(puppet._owner.worker, [EPOCH], 64) == []
        # Somebody who was believed for another second makes a namespace: it is as frozen as the rest.
        late = await connection.fetchrow(
            "insert into namespaces (id, organization_id, name, created_at) "
            "values (gen_random_uuid(), $1, 'late', 0) returning suspended_at, suspended_with_organization",
            own_api.organization,
        )
    assert late["suspended_at"] is not None and late["suspended_with_organization"]
    assert "suspended already" in await admin("organizations", "suspend", own_api.organization, "--reason", "again", "--yes", code=REFUSED)  # fmt: skip

    resumed = await admin("organizations", "resume", own_api.organization)
    assert (resumed["status"], resumed["suspended_reason"]) == ("active", None)
    own_api.services.tenancy.forget()
    states = {
        one["name"]: one["status"]
        for one in (await admin("namespaces", "list", own_api.organization))["data"]
    }
    assert states == {"acme": "active", "late": "active", "own": "suspended"}, "what they suspended stays so"
    assert len((await own_api.call("POST", "/v1/tasks/claim", json={"max": 1})).json()["tasks"]) == 1
    assert "not suspended" in await admin("organizations", "resume", own_api.organization, code=REFUSED)
    told = await lines(own_api, "&action=organization.*&actor=operator:ann@operators")
    assert [line["action"] for line in told] == ["organization.resume", "organization.suspend"]
    assert told[1]["before"] == {"suspended_at": None, "suspended_reason": None}
    assert told[1]["after"]["suspended_reason"] == "Unpaid."


async def test_members_see_why(own_api: Api, admin: Admin) -> None:
    browser = Browser(own_api)
    organization = await browser.sign_up("ann@example.com", "Initech")
    await admin("organizations", "suspend", "Initech", "--reason", "Abuse report 7", "--yes")
    assert "Suspended by the operator: Abuse report 7" in (await browser.get("/organizations")).text
    page = await browser.get(f"/members?organization={organization}")
    assert page.status_code == 403 and "Abuse report 7" in page.text
    asked = await browser.get(f"/v1/runs?organization={organization}&namespace=x")
    assert asked.json()["code"] == "organization_suspended"
    await browser.client.aclose()


async def test_plans(own_api: Api, admin: Admin) -> None:
    shown = await admin("plan", "set", own_api.organization, "free")
    assert (shown["plan"], shown["limits"]["active_runs"]) == ("free", 100)
    await own_api.call("PUT", "/v1/namespaces/acme", json={})
    quotas = (await own_api.call("GET", "/v1/namespaces/acme/quotas")).json()
    assert quotas["active_runs"]["limit"] == 100
    (line,) = await lines(own_api, "&action=organization.update")
    assert (line["actor"], line["before"]["plan"], line["after"]["plan"]) == (
        {"kind": "operator", "id": "ann@operators"}, "open", "free"
    )  # fmt: skip


async def test_namespaces(own_api: Api, admin: Admin) -> None:
    await own_api.start()
    await admin(
        "namespaces", "suspend", own_api.organization, "acme", "--reason", "loud", "--yes", "--by", "bob"
    )
    own_api.services.tenancy.forget()
    refused = await own_api.call("POST", "/v1/runs", json={"script": SCRIPT, "namespace": "acme"})
    assert refused.json()["code"] == "namespace_suspended"
    again = ("namespaces", "suspend", own_api.organization, "acme", "--reason", "loud", "--yes")
    assert "suspended already" in await admin(*again, code=REFUSED)
    await admin("namespaces", "resume", own_api.organization, "acme")
    own_api.services.tenancy.forget()
    await own_api.start()
    told = await lines(own_api, "&target=namespace:acme")
    assert [(line["action"], line["actor"]["id"]) for line in told[:2]] == [
        ("namespace.resume", "ann@operators"),
        ("namespace.suspend", "bob"),
    ]
    assert told[1]["after"] == {"status": "suspended", "reason": "loud"}
    assert "only with its organization" in await admin(
        "namespaces", "resume", own_api.organization, "acme", code=REFUSED
    )


async def test_quarantine(own_api: Api, admin: Admin) -> None:
    run = (await own_api.start())["id"]
    assert await admin("quarantine", run, "--reason", "a drill") == {"run": run, "status": "quarantined"}
    (one,) = (await admin("quarantine", "list"))["data"]
    assert (one["run"], one["namespace"], one["code"], one["reason"]) == (run, "acme", "operator", "a drill")
    assert (await admin("quarantine", "list", "--organization", own_api.organization))["data"] == [one]
    text, _ = await admin.text("quarantine", "list")
    assert run in text and "a drill" in text
    assert "quarantined already" in await admin("quarantine", run, "--reason", "again", code=REFUSED)
    await admin("quarantine", "release", run, "--reason", "fixed")
    assert "active" in await admin("quarantine", "release", run, "--reason", "fixed", code=REFUSED)
    await admin("quarantine", run, "--reason", "again")
    await admin("quarantine", "abandon", run, "--reason", "hopeless", "--yes")
    (one,) = (await admin("quarantine", "list"))["data"]
    assert one["abandoning"] is True
    told = await lines(own_api, f"&target=run:{run}")
    assert [(line["action"], line["before"], line["after"]) for line in told] == [
        ("run.abandon", {"status": "quarantined"}, {"status": "aborted", "reason": "hopeless"}),
        ("run.quarantine", {"status": "active"}, {"status": "quarantined", "reason": "again"}),
        ("run.release", {"status": "quarantined"}, {"status": "active", "reason": "fixed"}),
        ("run.quarantine", {"status": "active"}, {"status": "quarantined", "reason": "a drill"}),
    ]
    assert {json.dumps(line["actor"]) for line in told} == {'{"kind": "operator", "id": "ann@operators"}'}
    assert "usage" in await admin("quarantine", "release", "--reason", "x", code=USAGE)
    assert "--reason is needed" in await admin("quarantine", run, code=USAGE)


async def test_workers(own_api: Api, admin: Admin) -> None:
    assert (await admin.text("workers", "list"))[0].strip() == "no worker is registered"
    run = await own_api.start()
    puppet = await own_api.puppet(run["id"])
    (one,) = (await admin("workers", "list"))["data"]
    assert (one["id"], one["epochs"], one["status"], one["runs"]) == (
        str(puppet._owner.worker), [1], "working", 1
    )  # fmt: skip
    assert one["version"] and one["silent_ms"] < 10_000
    assert await puppet._owner.heartbeat() and not puppet._owner.asked_to_drain.is_set()
    assert (await admin("workers", "drain", one["id"]))["status"] == "draining"
    assert await puppet._owner.heartbeat() and puppet._owner.asked_to_drain.is_set()
    assert (await admin("workers", "list"))["data"][0]["status"] == "draining"
    (line,) = (await admin("audit"))["data"]
    assert (line["action"], line["target"], line["organization"]) == (
        "worker.drain",
        f"worker:{one['id']}",
        None,
    )
    assert line["before"] == {"status": "working", "runs": 1}
    assert await lines(own_api, "&action=worker.*") == [], "it is none of the customer's"


async def test_an_operator_looks_and_the_customer_sees_it(own_api: Api, admin: Admin, clock: Clock) -> None:
    run = (await own_api.start(input={"private": 1}))["id"]
    made = await admin("impersonate", own_api.organization, "--reason", "ticket 42", "--minutes", "5")
    key = made["key"]
    (told,) = await lines(own_api, "&action=operator.impersonate")
    assert told["actor"] == {"kind": "operator", "id": "ann@operators"}
    assert (told["after"]["reason"], told["after"]["until"]) == ("ticket 42", made["until"])
    (listed,) = [
        one for one in (await own_api.call("GET", "/v1/keys")).json()["data"] if one["id"] == made["id"]
    ]
    assert (listed["name"], listed["expires_at"]) == ("operator ann@operators: ticket 42", made["until"])
    assert key not in json.dumps(await lines(own_api))

    me = (await own_api.call("GET", "/v1/me", secret=key)).json()
    assert (me["principal"]["kind"], me["scopes"]) == ("operator", ["runs:read"])
    read = await own_api.call("GET", f"/v1/runs/{run}?namespace=acme", secret=key)
    assert read.json()["input"] == {"private": 1}
    assert (await own_api.call("GET", "/v1/webhooks", secret=key)).status_code == 200
    for method, path, body in (
        ("POST", "/v1/runs", {"script": SCRIPT, "namespace": "acme"}),
        ("POST", f"/v1/runs/{run}/cancel?namespace=acme", {}),
        ("POST", "/v1/scripts/check", {"script": SCRIPT, "namespace": "acme"}),
        ("PUT", "/v1/secrets/x", {"value": "x"}),
        ("POST", "/v1/tasks/claim", {"max": 1}),
        ("GET", "/v1/keys", None),
        ("GET", "/v1/audit", None),
    ):
        refused = await own_api.call(method, path, secret=key, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope"), path
    seen = await lines(own_api, "&actor=operator:ann@operators")
    assert [(line["action"], line["target"]) for line in reversed(seen)][-3:] == [
        ("operator.read", "path:/v1/me"),
        ("run.read", f"run:{run}"),
        ("operator.read", "path:/v1/webhooks"),
    ]
    assert seen[1]["after"] == {"method": "GET", "path": f"/v1/runs/{run}"}

    clock.advance(5 * 60_000)
    own_api.services.tenancy.forget()
    assert (await own_api.call("GET", "/v1/me", secret=key)).status_code == 401
    for minutes in ("0", "61"):
        assert "--minutes" in await admin("impersonate", own_api.organization, "--reason", "x", "--minutes", minutes, code=REFUSED)  # fmt: skip


async def test_a_customer_ends_it(own_api: Api, admin: Admin) -> None:
    made = await admin("impersonate", own_api.organization, "--reason", "ticket 42")
    taken = await own_api.call("POST", f"/v1/keys/{made['id']}/rotate", json={})
    assert (taken.status_code, taken.json()["code"]) == (403, "insufficient_scope"), (
        "nobody reads as the operator"
    )
    assert (await own_api.call("DELETE", f"/v1/keys/{made['id']}")).status_code == 204
    assert (await own_api.call("GET", "/v1/me", secret=made["key"])).status_code == 401


async def test_an_operator_has_a_name(admin: Admin, own_api: Api) -> None:
    err = await admin("organizations", "resume", own_api.organization, "--by", "", code=REFUSED)
    assert "--by" in err
