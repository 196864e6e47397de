"""The embedded server starts everywhere, keeps its data through kills, and is never started twice."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.embedded_postgres import AS_NOBODY, IN_NAMESPACE, EmbeddedPostgres, PostgresFailed
from infra.processes import AlreadyRunning, processes_in, send_signal, wait_until

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses as whom the server runs")
REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCHER = """
import sys
from pathlib import Path
from infra.embedded_postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1])).start()
print(server.pid, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path that the user nobody can reach, unlike pytest's tmp_path."""
    path = Path(tempfile.mkdtemp(prefix="rw-"))
    path.chmod(0o755)
    yield path
    assert wait_until(lambda: not processes_in(path / "data"), timeout_s=20), "a server was left running"
    shutil.rmtree(path)


def write(server: EmbeddedPostgres, number: int) -> None:
    server.psql(f"create table if not exists kept (n int); insert into kept values ({number})")


def kept(server: EmbeddedPostgres) -> str:
    return server.psql("select string_agg(n::text, ',' order by n) from kept")


def launch(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a server from a process of its own, which waits until its input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def test_data_survives_a_stop(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        write(server, 1)
        assert server.psql("show data_checksums") == "on"
        assert server.psql("show listen_addresses") == ""
    with EmbeddedPostgres(folder) as server:
        assert kept(server) == "1"


def test_starting_twice_is_refused_with_the_holder(folder: Path) -> None:
    process, _ = launch(folder)
    try:
        with pytest.raises(AlreadyRunning, match=f"in use by process {process.pid}"):
            EmbeddedPostgres(folder).start()
    finally:
        end(process)


def test_killed_launcher_takes_the_server_along_and_the_next_start_works(folder: Path) -> None:
    process, postmaster = launch(folder)
    end(process)
    with EmbeddedPostgres(folder) as server:
        assert postmaster not in processes_in(server.data)
        write(server, 1)
        assert kept(server) == "1"


def test_committed_rows_survive_kill_9_of_launcher_and_every_server_process(folder: Path) -> None:
    process, _ = launch(folder)
    with_url = EmbeddedPostgres(folder)
    write(with_url, 7)
    victims = [process.pid, *processes_in(folder / "data")]
    for pid in victims:
        send_signal(pid, signal.SIGKILL)
    end(process)
    assert (folder / "data/postmaster.pid").exists(), "the kill must leave a stale pid file"
    with EmbeddedPostgres(folder) as server:
        assert kept(server) == "7"


def test_same_object_restarts_a_killed_postmaster(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        write(server, 1)
        former = server.pid
        os.kill(former, signal.SIGKILL)
        assert wait_until(lambda: not server.is_running(), timeout_s=10)
        server.start()
        assert server.pid != former
        assert kept(server) == "1"


def test_orphaned_server_is_stopped_before_the_next_start(folder: Path) -> None:
    """Where no parent-death signal exists, or it was missed, the old postmaster is still there."""
    first = EmbeddedPostgres(folder).start()
    write(first, 3)
    first._lock.release()
    with EmbeddedPostgres(folder) as second:
        assert wait_until(lambda: not first.is_running(), timeout_s=10)
        assert kept(second) == "3"


def test_pid_file_that_names_a_stranger_is_not_believed(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        content = (server.data / "postmaster.pid").read_text().splitlines()
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        (server.data / "postmaster.pid").write_text("\n".join([str(stranger.pid), *content[1:]]))
        with EmbeddedPostgres(folder) as again:
            assert again.psql("select 1") == "1"
        assert stranger.poll() is None
    finally:
        stranger.communicate()


def test_interrupted_first_start_is_begun_anew(folder: Path) -> None:
    (folder / "data.new" / "base").mkdir(parents=True)
    with EmbeddedPostgres(folder) as server:
        assert server.psql("select 1") == "1"


def test_long_path_gets_a_short_socket(folder: Path) -> None:
    deep = folder / ("d" * 60) / ("e" * 60)
    with EmbeddedPostgres(deep) as server:
        assert server.psql("select 1") == "1"
        assert len(str(server.socket_dir)) < 60
    with EmbeddedPostgres(deep) as again:
        assert again.socket_dir == server.socket_dir
    assert not server.socket_dir.exists()


def test_failed_start_shows_the_log_and_frees_the_folder(folder: Path) -> None:
    with pytest.raises(PostgresFailed, match="no_such_setting"):
        EmbeddedPostgres(folder, settings={"no_such_setting": "1"}).start()
    with EmbeddedPostgres(folder) as server:
        assert server.psql("select 1") == "1"


def test_data_of_another_major_version_is_refused(folder: Path) -> None:
    with EmbeddedPostgres(folder):
        pass
    (folder / "data/PG_VERSION").write_text("12\n")
    with pytest.raises(PostgresFailed, match="made by Postgres 12"):
        EmbeddedPostgres(folder).start()


@ROOT_ONLY
def test_root_drops_to_nobody_where_nobody_can_go(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        if server.identity is not AS_NOBODY:
            pytest.skip("the binaries of this environment lie in a private folder")
        assert server.data.stat().st_uid == 65534
        assert Path(f"/proc/{server.pid}").stat().st_uid == 65534


@ROOT_ONLY
def test_private_home_uses_a_user_namespace(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with EmbeddedPostgres(home / "clone/postgres") as server:
        write(server, 1)
        assert server.identity is IN_NAMESPACE
        assert server.data.is_relative_to(home)
    with EmbeddedPostgres(home / "clone/postgres") as server:
        assert kept(server) == "1"


@ROOT_ONLY
def test_private_home_without_namespaces_uses_the_temporary_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with EmbeddedPostgres(home / "postgres", identities=(AS_NOBODY,)) as server:
        write(server, 1)
        assert not server.data.is_relative_to(home)
        place = server.data.parent
    with EmbeddedPostgres(home / "postgres", identities=(AS_NOBODY,)) as server:
        assert kept(server) == "1"
    shutil.rmtree(place)


@ROOT_ONLY
def test_folder_that_became_private_keeps_its_data(folder: Path) -> None:
    with EmbeddedPostgres(folder / "postgres") as server:
        write(server, 1)
    folder.chmod(0o700)
    with EmbeddedPostgres(folder / "postgres") as server:
        assert server.identity is IN_NAMESPACE
        assert kept(server) == "1"


@ROOT_ONLY
def test_ordinary_user_runs_the_server_as_itself(folder: Path) -> None:
    os.chown(folder, 65534, 65534)
    packages = sysconfig.get_path("purelib")
    done = subprocess.run(
        [python_for_everyone(), "-B", "-c", LAUNCHER, folder / "pg"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        env={"PYTHONPATH": f"{REPOSITORY}:{packages}"},
        cwd="/",
        user=65534,
        group=65534,
        extra_groups=[],
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "pg/data").stat().st_uid == 65534


def python_for_everyone() -> str:
    """Return an interpreter that the user nobody can run, with this repository readable to it."""
    for python in (sys.executable, "/usr/bin/python3"):
        probe = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import infra.embedded_postgres"
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-B", "-c", probe], check=False, cwd="/", user=65534).returncode == 0:
                return python
    pytest.skip("no interpreter and clone that another user could read")
