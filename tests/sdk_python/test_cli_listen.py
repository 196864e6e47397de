"""The verb `listen`: each event once and in order, signed as the server signs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.sdk_python.command import Run
from tests.sdk_python.fake_api import FakeApi
from tests.sdk_python.http_server import LocalServer, Reply, Request

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


def event(number: int, type_: str = "run.completed") -> dict[str, Any]:
    return {
        "id": f"01960000-0000-7000-8000-{number:012}",
        "type": type_,
        "timestamp": "2026-11-29T10:00:00.000Z",
        "sequence": number,
        "data": {"run": {"id": "x"}},
    }


def page(*numbers: int, more: str | None = None) -> dict[str, Any]:
    return {"data": [event(number) for number in numbers], "next": more}


async def test_what_is_new_is_forwarded_once_in_order_and_signed(server: FakeApi, run: Run) -> None:
    got: list[Request] = []

    async def endpoint(request: Request) -> Reply:
        got.append(request)
        return Reply(204 if len(got) > 1 else 500)

    server.on("GET /v1/events", page(2, 1), page(4, more="n"), page(3, 2), page(5, 4, 3))
    async with LocalServer(endpoint) as local:
        done = await run(
            "listen", "--forward-to", f"{local.url}/hooks?x=1", "--secret", SECRET, "--count", "3",
        )  # fmt: skip
    assert done.code == 0
    assert SECRET in done.err
    assert [request.json()["sequence"] for request in got] == [3, 4, 5]
    assert [line.split()[-1] for line in done.out.splitlines()] == ["500", "204", "204"]
    assert got[0].target == "/hooks?x=1"
    for request in got:
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert headers["webhook-id"] == request.json()["id"]
        Webhook(SECRET).verify(request.body, headers)
    assert "after=n" in server.requests[2].target
    assert "namespace" not in server.requests[0].target, "an API key hears of all"


async def test_an_endpoint_that_is_not_there_is_said(server: FakeApi, run: Run) -> None:
    server.on("GET /v1/events", page(), page(1))
    done = await run("listen", "--forward-to", "http://127.0.0.1:1/", "--count", "1", "--type", "run.failed")
    assert (done.code, "refused" in done.out.lower()) == (0, True)
    assert "type=run.failed" in server.requests[0].target


@pytest.mark.parametrize(
    "wrong",
    [
        ("--forward-to", "127.0.0.1:3000"),
        ("--forward-to", "ftp://x/"),
        ("--forward-to", "http://x/", "--secret", "whsec_"),
        ("--forward-to", "http://x/", "--count", "0"),
        (),
    ],
)
async def test_wrong_usage(server: FakeApi, run: Run, wrong: tuple[str, ...]) -> None:
    assert (await run("listen", *wrong)).code == 2
    assert list(server.requests) == []
