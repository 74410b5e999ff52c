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
from fairlead_standalone.service.testing import Whole, processes_of, wait_for
from tests.conftest import Server

BOUND_S = 180
T = TypeVar("T")
SERVICES = ("web", "scheduler", "executor")
SERVERS = ("postgres", "valkey")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """A running Fairlead, shared by the tests that leave it running."""
    with Whole(tmp_path_factory.mktemp("up")) as running:
        running.start()
        yield running


def get(whole: Whole, path: str, token: str | None = None) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{whole.address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def fairlead(whole: Whole, *words: str) -> "subprocess.CompletedProcess[str]":
    own = str(Path(sys.executable).with_name("fairlead"))
    environment = {**os.environ, "FAIRLEAD_DATA": str(whole.data)}
    for name in ("FAIRLEAD_SERVER", "FAIRLEAD_TOKEN"):
        environment.pop(name, None)
    return subprocess.run(
        [own, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


def queues_seen_by_a_browser(whole: Whole, link: str) -> bytes:
    """What a browser without cookies gets to see after it followed the link."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.open(link, timeout=30).close()
    with browser.open(f"{whole.address}/api/v1/queues", timeout=30) as answer:
        seen: bytes = answer.read()
        return seen


def test_up_prints_its_address_and_a_working_command(whole: Whole) -> None:
    assert f"Fairlead runs at {whole.address}" in whole.printed
    (line,) = [line for line in whole.printed.splitlines() if "Try it:" in line]
    words = line.split("Try it:")[1].strip()
    done = subprocess.run(
        words, shell=True, capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_printed_link_signs_a_browser_in_once(whole: Whole) -> None:
    (line,) = [line for line in whole.printed.splitlines() if "Sign in" in line]
    link = line.split()[-1]
    assert b'"default"' in queues_seen_by_a_browser(whole, link)
    with pytest.raises(urllib.error.HTTPError) as refused:
        queues_seen_by_a_browser(whole, link)
    refused.value.close()


def test_another_sign_in_link_can_be_created(whole: Whole) -> None:
    done = fairlead(whole, "token", "link", "--data", str(whole.data))
    assert done.returncode == 0, done.stderr
    assert b'"default"' in queues_seen_by_a_browser(whole, done.stdout.strip())


def test_every_route_needs_the_token(whole: Whole) -> None:
    assert get(whole, "/api/v1/queues")[0] == 401
    assert get(whole, "/api/v1/queues", "fl_wrong")[0] == 401
    shown = fairlead(whole, "token", "show", "--data", str(whole.data)).stdout.strip()
    assert shown == whole.token
    status, body = get(whole, "/api/v1/queues", shown)
    assert status == 200
    assert b'"default"' in body


def test_probes_and_metrics_are_open(whole: Whole) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert get(whole, path)[0] == 200


def test_one_description_of_the_api_has_both_services(whole: Whole) -> None:
    status, body = get(whole, "/openapi.json", whole.token)
    assert status == 200
    paths = json.loads(body)["paths"]
    assert {"post", "get"} <= paths["/api/v1/jobs"].keys()


def of_all(whole: Whole, read: Callable[[psutil.Process], list[T]]) -> Iterator[list[T]]:
    """What is read of the supervisor and of all below it; some may just have ended."""
    supervisor = whole.supervisor
    for process in (supervisor, *supervisor.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            yield read(process)


def test_it_listens_on_the_loopback_only(whole: Whole) -> None:
    places = {
        connection.laddr.ip
        for connections in of_all(whole, lambda process: process.net_connections("inet"))
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }
    assert places == {"127.0.0.1"}


def test_no_secret_is_on_a_command_line(whole: Whole) -> None:
    secrets = json.loads((whole.data / "secrets.json").read_text()).values()
    for arguments in of_all(whole, psutil.Process.cmdline):
        words = " ".join(arguments)
        assert not [secret for secret in (*secrets, whole.token) if secret in words]


def test_secret_files_are_readable_only_by_their_owner(whole: Whole) -> None:
    for name in ("secrets.json", "token", "sign-in", "lock"):
        assert (whole.data / name).stat().st_mode & 0o077 == 0


def test_a_second_up_in_the_same_folder_is_refused(whole: Whole) -> None:
    done = fairlead(whole, "up", "--data", str(whole.data), "--port", str(free_port()))
    assert done.returncode == 2
    assert "in use by another `fairlead up`" in done.stderr
    assert "--data" in done.stderr


def test_a_port_in_use_is_refused_with_a_free_one(whole: Whole, tmp_path: Path) -> None:
    done = fairlead(whole, "up", "--data", str(tmp_path / "d"), "--port", str(whole.port))
    assert done.returncode == 2
    assert f"Port {whole.port}" in done.stderr
    assert "fairlead up --port" in done.stderr


def test_a_missing_broker_is_reported(whole: Whole, tmp_path: Path) -> None:
    words = (
        "up",
        "--data",
        str(tmp_path / "d"),
        "--port",
        str(free_port()),
        "--kafka",
        "127.0.0.1:1",
    )
    done = fairlead(whole, *words)
    assert done.returncode == 2
    assert "Nothing answers at the address given by --kafka" in done.stderr


def test_data_of_another_major_version_is_refused(whole: Whole, tmp_path: Path) -> None:
    (tmp_path / "d" / "postgres-9").mkdir(parents=True)
    shutil.copy(whole.data / "format", tmp_path / "d")
    done = fairlead(whole, "up", "--data", str(tmp_path / "d"), "--port", str(free_port()))
    assert done.returncode == 2
    assert "written by Postgres 9" in done.stderr


@pytest.mark.parametrize("name", [*SERVICES, *SERVERS])
def test_a_killed_service_is_restarted(whole: Whole, name: str) -> None:
    before = whole.child(name)
    before.kill()
    psutil.wait_procs([before], BOUND_S)
    whole.wait_for(lambda: f"{name} runs again" in whole.printed)
    assert whole.child(name).pid != before.pid
    whole.wait_ready()
    done = fairlead(whole, "run", "--", "echo", f"after {name}")
    assert (done.returncode, done.stdout) == (0, f"after {name}\n"), done.stderr


def test_ctrl_c_shuts_down_in_order_and_data_survive(tmp_path: Path) -> None:
    with Whole(tmp_path) as whole:
        whole.start()
        token = whole.token
        assert fairlead(whole, "queue", "create", "physics").returncode == 0
        fairlead(whole, "run", "--", "true")
        assert whole.interrupt() == 0
        assert "killing it" not in whole.printed
        assert not processes_of(whole.data)
        whole.start()
        assert whole.token == token
        assert b'"physics"' in get(whole, "/api/v1/queues", token)[1]
        jobs = json.loads(get(whole, "/api/v1/jobs", token)[1])["jobs"]
        assert [job["state"] for job in jobs] == ["SUCCEEDED"]


def test_ctrl_c_during_the_start_shuts_down(tmp_path: Path) -> None:
    whole = Whole(tmp_path)
    with subprocess.Popen(whole.words, stdout=subprocess.DEVNULL) as starting:
        wait_for((whole.data / "logs" / "web.log").exists)
        starting.send_signal(signal.SIGINT)
        assert starting.wait(BOUND_S) == 0
    assert not processes_of(whole.data)


def test_under_nohup_it_outlives_its_terminal(tmp_path: Path) -> None:
    whole = Whole(tmp_path)
    words = ["nohup", *whole.words]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            wait_for(lambda: is_ready(whole.port))
            running.send_signal(signal.SIGHUP)
            wait_for(lambda: get(whole, "/readyz")[0] == 200)
            assert running.poll() is None
        finally:
            running.send_signal(signal.SIGTERM)
    assert running.returncode == 0


def test_no_process_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with Whole(tmp_path) as whole:
        whole.start()
        mark = tmp_path / "started"
        command = f"touch {mark}; exec sleep 1000"
        job = subprocess.Popen(
            [str(Path(sys.executable).with_name("fairlead")), "run", "--", "sh", "-c", command],
            env={**os.environ, "FAIRLEAD_DATA": str(whole.data)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        whole.wait_for(mark.exists)
        job.kill()
        job.wait()
        everything = [p for p in processes_of(tmp_path) if p.pid != os.getpid()]
        assert len(everything) > len(SERVICES) + len(SERVERS)
        whole.kill()
        _, alive = psutil.wait_procs(everything, BOUND_S)
        assert not alive
        wait_for(lambda: not processes_of(whole.data))  # some may have begun just then


def test_it_starts_again_after_a_kill(tmp_path: Path) -> None:
    with Whole(tmp_path) as whole:
        whole.start()
        whole.kill()
        whole.start()
        assert fairlead(whole, "run", "--", "true").returncode == 0


@pytest.mark.kafka
def test_kafka_can_be_the_log(kafka_broker: Server, tmp_path: Path) -> None:
    with Whole(tmp_path, "--kafka", kafka_broker.url()) as whole:
        whole.start()
        done = fairlead(whole, "run", "--", "echo", "by Kafka")
        assert (done.returncode, done.stdout) == (0, "by Kafka\n"), done.stderr
        assert whole.interrupt() == 0


def test_a_second_ctrl_c_exits_at_once(tmp_path: Path) -> None:
    with Whole(tmp_path) as whole:
        whole.start()
        os.kill(whole.child("executor").pid, signal.SIGSTOP)  # it will not end in order
        whole.supervisor.send_signal(signal.SIGINT)
        whole.wait_for(lambda: "ending:" in whole.printed)
        assert whole.interrupt() == 0
        assert "ending at once" in whole.printed
        wait_for(lambda: not processes_of(whole.data))  # nobody waited for those killed
