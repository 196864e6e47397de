"""Each layer of the confinement, by trying what it forbids from inside a confined process."""

import os
import platform
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.epochs.registry import FOLDER
from sandbox.isolate import process as processes
from sandbox.isolate.api import SandboxFault
from sandbox.isolate.confine import LAYERS, ON
from sandbox.isolate.frames import Frame
from sandbox.isolate.pool import ChildPool
from sandbox.isolate.process import ChildProcess, start_child

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the attempts use x86_64 system calls"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def child() -> AsyncIterator[ChildProcess]:
    os.environ["REWIND_SECRET_OF_THE_TEST"] = "must not be inherited"
    started = await start_child(
        "tests.sandbox.isolate.forbidden_child", ("1", str(FOLDER)), require_confinement=False
    )
    del os.environ["REWIND_SECRET_OF_THE_TEST"]
    yield started
    await started.stop()


async def test_every_layer_reports(child: ChildProcess) -> None:
    assert set(child.confinement) == set(LAYERS)


async def test_what_is_forbidden_is_refused(child: ChildProcess) -> None:
    if child.confinement["seccomp"] != ON:
        pytest.skip(f"no system-call filter here: {child.confinement['seccomp']}")
    result = (await child.ask(Frame({"op": "attempts"}))).header
    assert result.pop("thread") == "allowed: None"
    allowed = {what: how for what, how in result.items() if not how.startswith("refused")}
    assert allowed == {}
    assert not Path("/tmp/escaped").exists()


async def test_it_holds_nothing_of_its_parent(child: ChildProcess) -> None:
    result = (await child.ask(Frame({"op": "self"}))).header
    assert result["environ"] == {}
    assert result["descriptors"] == [0, 1, 2]
    if child.confinement["uid"] == ON:
        assert result["uid"] != os.getuid()
    initial = Path(f"/proc/{child.pid}/environ")
    if os.access(initial, os.R_OK):
        assert b"SECRET" not in initial.read_bytes()


async def test_memory_has_an_end(child: ChildProcess) -> None:
    if child.confinement["limits"] != ON:
        pytest.skip(child.confinement["limits"])
    result = (await child.ask(Frame({"op": "memory"}))).header
    assert 1_000 < result["refused_after_mib"] < 3_200


async def test_two_children_have_different_users() -> None:
    if os.getuid() != 0:
        pytest.skip("needs root")
    async with ChildPool(children=2) as pool:
        users = {Path(f"/proc/{one.pid}").stat().st_uid for one in pool.children}
        assert all(one.confinement["uid"] == ON for one in pool.children)
    assert len(users) == 2 or users == {0}  # /proc shows root for processes that may not be dumped


async def test_a_required_confinement_that_is_missing_refuses_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "missing_layers", lambda _layers: {"landlock": "the kernel lacks it"})
    with pytest.raises(SandboxFault, match=r"REWIND_REQUIRE_CONFINEMENT.*landlock: the kernel lacks it"):
        async with ChildPool(children=1, require_confinement=True):
            pass
