"""Fixtures that any test may ask for. Servers start when first asked for, one set per worker.

- `postgres_server`: an embedded Postgres (session). `.url("name")`, `.restart()`, `.kill()`.
- `database`: the URL of one database of this worker (session): migrate once, DELETE between tests.
- `fresh_database`: the URL of an empty database of this test alone (about 50 ms).
- `valkey_server`: an embedded Valkey (session). `.restart()`, `.kill()`.
- `valkey_url`: its URL, with everything in it deleted (function).
- `fresh_kafka_broker`: a real Kafka broker of this test alone (about 4 s), for tests that start an
  installation on it: its topics have the same names in every test. `.url()`, `.restart()`,
  `.kill()`; skips with the reason when it cannot be had. Mark tests that use it `kafka`.
- `kubernetes_tools`: the folder of kubectl and kube-controller-manager (session); skips with the
  reason where they have not been built (`make kubernetes`).
- `chromium`: the path of a Chromium (session); skips with the reason when there is none.

Some folders have more, which end with the last test of the folder, because they take several
percent of a core also when nothing uses them: `kafka_broker`, `standalone` and the
fixtures of `kubernetes_fixtures.py`. Such a folder is a package, as are the folders above it.

`FAIRLEAD_TEST_POSTGRES=postgresql://...` (a superuser's), `FAIRLEAD_TEST_REDIS=redis://...` and
`FAIRLEAD_TEST_KAFKA=kafka://...` use servers that are there already, and
`FAIRLEAD_TEST_KUBECONFIG=FILE` such a cluster; tests that kill a server are then skipped.

`FAIRLEAD_EXAMPLES=1000` tries so many random examples of each property in tests/properties and
tests/unit; without it they are few, and the same each time.
"""

import asyncio
import gc
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import hypothesis
import pytest
from redis import Redis

from fairlead_scheduler.kernels import compilation
from fairlead_standalone.processes.child_process import Program, RunningProcess
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import SETTINGS_OF_TESTS, Postgres
from fairlead_standalone.servers.embedded_valkey import Valkey
from tests.go_programs import KUBERNETES_TOOLS, ProgramsUnavailable
from tests.kafka_broker import BrokerUnavailable, KafkaBroker

ROOT = Path(__file__).parent.parent
T = TypeVar("T")
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Else each of hundreds of clients reads the certificates of this machine, for nothing."""
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 * 2**30

hypothesis.settings.register_profile(
    "fairlead",
    derandomize="FAIRLEAD_EXAMPLES" not in os.environ,
    deadline=None,  # how long an example takes is said by the machine, not by the code
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("fairlead")


def pytest_configure(config: pytest.Config) -> None:
    """Share compiled kernels; register the marks by which `make check` leaves out what takes long.

    Who runs the tests in the background of a script hands down an ignored Ctrl-C, which programs
    that tests start would inherit.
    """
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        compilation.choose_kernels(os.environ)  # a process that only hands out tests needs none
    config.addinivalue_line("markers", "kafka: needs a real Kafka broker")
    config.addinivalue_line("markers", "kubernetes: needs a real Kubernetes API server")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """All that is made now stays: no search for garbage until the tests have been collected."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Searches for garbage leave out what was collected: thousands of tests and all modules."""
    gc.freeze()
    gc.enable()


class Server:
    """A server for tests: ours, that may be killed, or one that somebody else runs."""

    def __init__(self, url: str, running: RunningProcess | None) -> None:
        self._url = url
        self._running = running

    def url(self, database: str | None = None) -> str:
        """Its URL, for Postgres with the name of a database."""
        if database is None:
            return self._url
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{database}"))

    @property
    def pid(self) -> int:
        """Its process id; skips the test when the server is not ours."""
        return self._ours().pid

    def kill(self) -> None:
        """`kill -9`: what it had not written is lost."""
        self._ours().kill()

    def restart(self) -> None:
        """Start it again on the same port and data, after `kill` or instead of a stop."""
        self._ours().stop()
        self._ours().start()

    def _ours(self) -> RunningProcess:
        if self._running is None:
            pytest.skip("the server belongs to somebody else, so this test may not kill it")
        return self._running


def blocking(work: Coroutine[object, object, T]) -> T:
    """The result of a coroutine for a fixture that is not async, whatever loop is about."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _served(program: Program, url: str, folder: Path) -> Iterator[Server]:
    with RunningProcess(program, folder / f"{program.name}.log") as running:
        running.start()
        yield Server(url, running)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A Postgres of this worker alone."""
    if given := os.environ.get("FAIRLEAD_TEST_POSTGRES"):
        yield Server(given, None)
        return
    with tempfile.TemporaryDirectory(prefix="fairlead-tests-", dir=_choose_parent()) as name:
        folder = Path(name)
        program = Postgres(
            folder, password=secrets.token_hex(8), port=free_port(), settings=SETTINGS_OF_TESTS
        )
        yield from _served(program, program.url(), folder)


def _choose_parent() -> Path | None:
    """In memory, if there is much: tests make hundreds of databases, each of hundreds of files.
    None: the folder for temporary files."""
    is_large = MEMORY.exists() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    return MEMORY if is_large else None


async def create_database(server: str, name: str, template: str = "template1") -> None:
    """Make a database on a server, a copy of another to which nobody is connected: by default an
    empty one. Its files are copied: half the work of writing a WAL."""
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(
            f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY'
        )
    finally:
        await connection.close()


async def _drop_database(server: str, name: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    finally:
        await connection.close()


def made_database(server: Server, template: str = "template1") -> Iterator[str]:
    """The URL of a database, by default an empty one, which goes afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    blocking(create_database(server.url(), name, template))
    yield server.url(name)
    blocking(_drop_database(server.url(), name))


@pytest.fixture(scope="session")
def database(postgres_server: Server) -> Iterator[str]:
    """A database of this worker. Tests that share it delete their rows."""
    yield from made_database(postgres_server)


@pytest.fixture
def fresh_database(postgres_server: Server) -> Iterator[str]:
    """An empty database of this test alone."""
    yield from made_database(postgres_server)


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Valkey of this worker alone."""
    if given := os.environ.get("FAIRLEAD_TEST_REDIS"):
        yield Server(given, None)
        return
    folder = tmp_path_factory.mktemp("valkey")
    program = Valkey(folder, password=secrets.token_hex(8), port=free_port())
    yield from _served(program, program.url(), folder)


@pytest.fixture
def valkey_url(valkey_server: Server) -> str:
    """The URL of an empty Valkey."""
    with Redis.from_url(valkey_server.url()) as client:
        client.flushall()
    return valkey_server.url()


def run_kafka_broker(folder: Path) -> Iterator[Server]:
    """A started broker, which is killed afterwards. Skips the test when it cannot be had."""
    if given := os.environ.get("FAIRLEAD_TEST_KAFKA"):
        yield Server(given, None)
        return
    try:
        program = KafkaBroker(folder)
    except BrokerUnavailable as error:
        pytest.skip(f"no Kafka broker: {error}")
    for server in _served(program, program.url(), folder):
        yield server
        server.kill()  # nobody needs its data, and to stop in order takes seconds


@pytest.fixture
def fresh_kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Kafka broker of this test alone."""
    yield from run_kafka_broker(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def kubernetes_tools() -> Path:
    """The folder of kubectl, and of kube-controller-manager for `ControlPlane.controllers`."""
    try:
        return KUBERNETES_TOOLS.find()
    except ProgramsUnavailable as error:
        pytest.skip(f"no kubectl: {error}")


def tool_output(name: str) -> str:
    """What a script of tools/ prints; skips the test, with the reason, where it fails."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


@pytest.fixture(scope="session")
def chromium() -> str:
    """A Chromium for Playwright: `launch(executable_path=chromium, args=["--no-sandbox"])`."""
    return tool_output("chromium.py")
