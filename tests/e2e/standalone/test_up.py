"""`fairlead up` as a person uses it: refusals, crashes of each part, Ctrl-C, `kill -9`."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.fairlead_services import is_ready
from fairlead_standalone.service.testing import (
    PYTHON_ENGINE,
    StandaloneInstallation,
    wait_for,
)
from tests.conftest import Server
from tests.e2e.commands import COMMAND, run_fairlead

BOUND_S = 180
T = TypeVar("T")
SERVICES = ("web", "scheduler", "executor")
SERVERS = ("postgres", "valkey")


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneInstallation]:
    """A running Fairlead, shared by the tests that leave it running, some of which restart it."""
    with StandaloneInstallation(
        tmp_path_factory.mktemp("up"), environment=PYTHON_ENGINE
    ) as running:
        running.start()
        yield running


def processes_of(data: Path) -> list[psutil.Process]:
    """All processes that have to do with this data folder: by command, environment or cwd."""
    found = []
    text = str(data)
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values(), process.cwd()]
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if process.pid != os.getpid() and any(text in word for word in words):
            found.append(process)
    return found


def get(
    standalone: StandaloneInstallation, path: str, token: str | None = None
) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{standalone.address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def queues_seen_by_a_browser(standalone: StandaloneInstallation, link: str) -> bytes:
    """What a browser without cookies gets to see after it followed the link."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.open(link, timeout=30).close()
    with browser.open(f"{standalone.address}/api/v1/queues", timeout=30) as answer:
        seen: bytes = answer.read()
        return seen


def test_up_prints_its_address_and_a_working_command(standalone: StandaloneInstallation) -> None:
    assert f"Fairlead runs at {standalone.address}" in standalone.printed
    (line,) = [line for line in standalone.printed.splitlines() if "Try it:" in line]
    words = line.split("Try it:")[1].strip()
    done = subprocess.run(
        words, shell=True, capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_printed_link_signs_a_browser_in_once(standalone: StandaloneInstallation) -> None:
    (line,) = [line for line in standalone.printed.splitlines() if "Sign in" in line]
    link = line.split()[-1]
    assert b'"default"' in queues_seen_by_a_browser(standalone, link)
    with pytest.raises(urllib.error.HTTPError) as refused:
        queues_seen_by_a_browser(standalone, link)
    refused.value.close()


def test_another_sign_in_link_can_be_created(standalone: StandaloneInstallation) -> None:
    done = run_fairlead(standalone, "token", "link", "--data", str(standalone.data))
    assert done.returncode == 0, done.stderr
    assert b'"default"' in queues_seen_by_a_browser(standalone, done.stdout.strip())


def test_every_route_needs_the_token(standalone: StandaloneInstallation) -> None:
    assert get(standalone, "/api/v1/queues")[0] == 401
    assert get(standalone, "/api/v1/queues", "fl_wrong")[0] == 401
    printed_token = run_fairlead(
        standalone, "token", "show", "--data", str(standalone.data)
    ).stdout.strip()
    assert printed_token == standalone.token
    status, body = get(standalone, "/api/v1/queues", printed_token)
    assert status == 200
    assert b'"default"' in body


def test_probes_and_metrics_are_open(standalone: StandaloneInstallation) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert get(standalone, path)[0] == 200


def test_one_description_of_the_api_has_both_services(standalone: StandaloneInstallation) -> None:
    status, body = get(standalone, "/openapi.json", standalone.token)
    assert status == 200
    paths = json.loads(body)["paths"]
    assert {"post", "get"} <= paths["/api/v1/jobs"].keys()


def of_all(
    standalone: StandaloneInstallation, read: Callable[[psutil.Process], list[T]]
) -> Iterator[list[T]]:
    """What is read of the supervisor and of all below it; some may just have ended."""
    supervisor = standalone.supervisor
    for process in (supervisor, *supervisor.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            yield read(process)


def test_it_listens_on_the_loopback_only(standalone: StandaloneInstallation) -> None:
    places = {
        connection.laddr.ip
        for connections in of_all(standalone, lambda process: process.net_connections("inet"))
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }
    assert places == {"127.0.0.1"}


def test_no_secret_is_on_a_command_line(standalone: StandaloneInstallation) -> None:
    secrets = json.loads((standalone.data / "secrets.json").read_text()).values()
    for arguments in of_all(standalone, psutil.Process.cmdline):
        words = " ".join(arguments)
        assert not [secret for secret in (*secrets, standalone.token) if secret in words]


def test_secret_files_are_readable_only_by_their_owner(standalone: StandaloneInstallation) -> None:
    for name in ("secrets.json", "token", "sign-in", "lock"):
        assert (standalone.data / name).stat().st_mode & 0o077 == 0


def test_a_second_up_in_the_same_folder_is_refused(standalone: StandaloneInstallation) -> None:
    done = run_fairlead(
        standalone, "up", "--data", str(standalone.data), "--port", str(free_port())
    )
    assert done.returncode == 2
    assert "in use by another `fairlead up`" in done.stderr
    assert "--data" in done.stderr


def test_a_port_in_use_is_refused_with_a_free_one(
    standalone: StandaloneInstallation, tmp_path: Path
) -> None:
    done = run_fairlead(
        standalone, "up", "--data", str(tmp_path / "d"), "--port", str(standalone.port)
    )
    assert done.returncode == 2
    assert f"Port {standalone.port}" in done.stderr
    assert "fairlead up --port" in done.stderr


def test_a_missing_broker_is_reported(standalone: StandaloneInstallation, tmp_path: Path) -> None:
    words = (
        "up",
        "--data",
        str(tmp_path / "d"),
        "--port",
        str(free_port()),
        "--kafka",
        "127.0.0.1:1",
    )
    done = run_fairlead(standalone, *words)
    assert done.returncode == 2
    assert "Nothing answers at the address given by --kafka" in done.stderr


def test_data_of_another_major_version_is_refused(
    standalone: StandaloneInstallation, tmp_path: Path
) -> None:
    (tmp_path / "d" / "postgres-9").mkdir(parents=True)
    shutil.copy(standalone.data / "format", tmp_path / "d")
    done = run_fairlead(standalone, "up", "--data", str(tmp_path / "d"), "--port", str(free_port()))
    assert done.returncode == 2
    assert "written by Postgres 9" in done.stderr


@pytest.mark.parametrize("name", [*SERVICES, *SERVERS])
def test_a_killed_service_is_restarted(standalone: StandaloneInstallation, name: str) -> None:
    before = standalone.child(name)
    before.kill()
    psutil.wait_procs([before], BOUND_S)
    standalone.wait_for(lambda: f"{name} runs again" in standalone.printed)
    assert standalone.child(name).pid != before.pid
    standalone.wait_ready()
    done = run_fairlead(standalone, "run", "--", "echo", f"after {name}")
    assert (done.returncode, done.stdout) == (0, f"after {name}\n"), done.stderr


def test_ctrl_c_shuts_down_in_order_and_data_survive(standalone: StandaloneInstallation) -> None:
    token, before = standalone.token, len(standalone.printed)
    assert run_fairlead(standalone, "queue", "create", "physics").returncode == 0
    done = run_fairlead(standalone, "run", "--queue", "physics", "--", "true")
    assert done.returncode == 0, done.stderr
    assert standalone.interrupt() == 0
    assert "killing it" not in standalone.printed[before:]
    assert not processes_of(standalone.data)
    standalone.start()
    assert standalone.token == token
    assert b'"physics"' in get(standalone, "/api/v1/queues", token)[1]
    jobs = json.loads(get(standalone, "/api/v1/jobs?queue=physics", token)[1])["jobs"]
    assert [job["state"] for job in jobs] == ["SUCCEEDED"]


def test_ctrl_c_during_the_start_shuts_down(tmp_path: Path) -> None:
    standalone = StandaloneInstallation(tmp_path)
    with subprocess.Popen(standalone.words, stdout=subprocess.DEVNULL) as starting:
        wait_for((standalone.data / "logs" / "web.log").exists)
        starting.send_signal(signal.SIGINT)
        assert starting.wait(BOUND_S) == 0
    assert not processes_of(standalone.data)


def test_under_nohup_it_outlives_its_terminal(tmp_path: Path) -> None:
    standalone = StandaloneInstallation(tmp_path)
    words = ["nohup", *standalone.words]
    environment = {**os.environ, **PYTHON_ENGINE}
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            wait_for(lambda: is_ready(standalone.port))
            running.send_signal(signal.SIGHUP)
            wait_for(lambda: get(standalone, "/readyz")[0] == 200)
            assert running.poll() is None
        finally:
            running.send_signal(signal.SIGTERM)
    assert running.returncode == 0


def test_no_process_outlives_a_killed_supervisor_and_it_starts_again(
    standalone: StandaloneInstallation, tmp_path: Path
) -> None:
    mark = tmp_path / "started"
    command = f"touch {mark}; exec sleep 1000"
    job = subprocess.Popen(
        [COMMAND, "run", "--", "sh", "-c", command],
        env={**os.environ, "FAIRLEAD_DATA": str(standalone.data)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    standalone.wait_for(mark.exists)
    job.kill()
    job.wait()
    everything = processes_of(standalone.data)
    assert len(everything) > len(SERVICES) + len(SERVERS)
    standalone.kill()
    _, alive = psutil.wait_procs(everything, BOUND_S)
    assert not alive
    wait_for(lambda: not processes_of(standalone.data))  # some may have begun just then
    standalone.start()
    assert run_fairlead(standalone, "run", "--", "true").returncode == 0


@pytest.mark.kafka
def test_kafka_can_be_the_log(fresh_kafka_broker: Server, tmp_path: Path) -> None:
    with StandaloneInstallation(
        tmp_path, "--kafka", fresh_kafka_broker.url(), environment=PYTHON_ENGINE
    ) as standalone:
        standalone.start()
        done = run_fairlead(standalone, "run", "--", "echo", "by Kafka")
        assert (done.returncode, done.stdout) == (0, "by Kafka\n"), done.stderr
        assert standalone.interrupt() == 0


def test_a_second_ctrl_c_exits_at_once(tmp_path: Path) -> None:
    with StandaloneInstallation(tmp_path, environment=PYTHON_ENGINE) as standalone:
        standalone.start()
        os.kill(standalone.child("executor").pid, signal.SIGSTOP)  # it will not end in order
        standalone.supervisor.send_signal(signal.SIGINT)
        standalone.wait_for(lambda: "ending:" in standalone.printed)
        assert standalone.interrupt() == 0
        assert "ending at once" in standalone.printed
        wait_for(lambda: not processes_of(standalone.data))  # nobody waited for those killed


STARTER = """
import sys, time
from pathlib import Path
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
with StandaloneInstallation(Path(sys.argv[1]), environment=PYTHON_ENGINE) as standalone:
    standalone.start()
    print("started", flush=True)
    time.sleep(1_000_000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signals of parents exist on Linux only")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_bench_or_test_that_started_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    words = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        assert processes_of(tmp_path / "data")
        starter.send_signal(number)
    wait_for(lambda: not processes_of(tmp_path / "data"))
