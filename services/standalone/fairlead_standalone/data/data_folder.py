"""The folder that contains everything of a standalone installation, and its lock.

format          what wrote this folder, as a number
lock            held by the running supervisor; contains its process id and addresses
secrets.json    generated passwords and the signing key (mode 0600)
token           the first API token, in plain (mode 0600)
address         the address of the web process while it listens; commands read it
log             the kind of log that the views in this folder fold
sign-in         a link that signs a browser in once
reserve         a file that is deleted to free space when the disk is full
logs/           one file per child, the older half in NAME.log.1
postgres-18/    the database cluster; its name has the major version of Postgres
valkey/         settings of the Valkey that runs
executor/       pods of the process backend
"""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from fairlead import discovery
from fairlead_common.domain.errors import WorldError

FORMAT: Final = 1
"""The number of the format. It changes only if older versions cannot use the folder."""

FORMAT_FILE: Final = "format"
LINK_FILE: Final = "sign-in"


class FolderRefused(WorldError):
    """The data folder cannot be used; the message says why and what to do."""


class Secrets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Generated passwords and keys."""

    postgres: str
    redis: str
    signing_key: str
    secrets_key: str = ""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor that holds the lock: its pid, its address and the servers that it uses."""

    pid: int
    address: str
    database_url: str
    redis_url: str = ""
    log_url: str = ""


class DataFolder:
    """A folder that only this process uses until it ends (the kernel then releases the lock)."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.secrets = _secrets(path)
        self._lock = lock

    @property
    def logs(self) -> Path:
        """The folder of the children's logs."""
        return self.path / "logs"

    def announce(
        self, address: str, database_url: str, redis_url: str = "", log_url: str = ""
    ) -> None:
        """Write the holder of the lock, its address and its servers into the lock file."""
        holder = Holder(
            pid=os.getpid(),
            address=address,
            database_url=database_url,
            redis_url=redis_url,
            log_url=log_url,
        )
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, msgspec.json.encode(holder), 0)

    def bind_log(self, kind: str) -> None:
        """Note which kind of log the views in this folder fold; raises `FolderRefused` for another.

        The views themselves refuse another log too, but only once everything runs.
        """
        file = self.path / "log"
        bound = _read_line(file)
        if not bound:
            write_private(file, f"{kind}\n".encode())
        elif bound != kind:
            raise FolderRefused(
                f"The data in {self.path} belongs to the log in {bound}, and this start uses the"
                f" log in {kind}. Start with the same options as before, or choose another folder"
                " with --data."
            )

    def sign_in_link(self) -> str:
        """The link that signs a browser in, which the web process wrote when it started."""
        return (self.path / LINK_FILE).read_text().strip()

    def close(self) -> None:
        """Release the folder."""
        (self.path / discovery.ADDRESS_FILE).unlink(missing_ok=True)
        os.close(self._lock)


def claim(path: Path) -> DataFolder:
    """Create or open the folder and lock it. Raises `FolderRefused`."""
    path = path.absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_format(path)
        with contextlib.ExitStack() as undo:
            lock = _lock(path)
            undo.callback(os.close, lock)
            if not _read_line(path / FORMAT_FILE):
                write_private(path / FORMAT_FILE, f"{FORMAT}\n".encode())
            (path / "logs").mkdir(mode=0o700, exist_ok=True)
            claimed = DataFolder(path, lock)
            undo.pop_all()
        return claimed
    except OSError as error:
        raise FolderRefused(
            f"The data folder {path} cannot be used: {error.strerror}. Choose another with --data."
        ) from error


def _check_format(path: Path) -> None:
    """Raises `FolderRefused` for a folder of another version, or that contains other files.

    Without a format, the lock shows that Fairlead has begun to write here.
    """
    written = _read_line(path / FORMAT_FILE)
    if not written:
        others = sorted(item.name for item in path.iterdir() if item.name != FORMAT_FILE)
        if others and "lock" not in others:
            raise FolderRefused(
                f"{path} contains other files ({', '.join(others[:3])}, ...), so Fairlead does not"
                " write there. Choose an empty or a new folder with --data."
            )
    elif written != str(FORMAT):
        raise FolderRefused(
            f"{path} was written by another major version of Fairlead (format {written}, this one"
            f" reads {FORMAT}). Start that version, or choose another folder with --data."
        )


def _read_line(file: Path) -> str:
    """The only line of a file; "" if it does not exist, or is empty: a full disk, or a kill of an
    earlier version, left it so."""
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return ""


def _lock(path: Path) -> int:
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
    except BlockingIOError:
        text = os.pread(lock, 4096, 0)
        os.close(lock)
        raise FolderRefused(
            f"{path} is in use by another `fairlead up`{_describe(text)}. End that one (Ctrl-C),"
            " or choose another folder with --data and another port with --port."
        ) from None
    return lock


def read_holder(path: Path) -> Holder | None:
    """The holder of the folder; None without one, or if it has only just started."""
    with contextlib.closing(os.fdopen(os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC))) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _decode(lock.read().encode())
    return None


def _describe(text: bytes) -> str:
    found = _decode(text)
    return "" if found is None else f" (process {found.pid}, {found.address})"


def _decode(text: bytes) -> Holder | None:
    """None while the holder has only just started."""
    try:
        return msgspec.json.decode(text, type=Holder)
    except msgspec.DecodeError:
        return None


def _secrets(path: Path) -> Secrets:
    """The secrets of the folder, generated on first use."""
    file = path / "secrets.json"
    if not file.exists():
        made = Secrets(
            postgres=secrets.token_urlsafe(24),
            redis=secrets.token_urlsafe(24),
            signing_key=secrets.token_urlsafe(32),
            secrets_key=secrets.token_urlsafe(32),
        )
        write_private(file, msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    try:
        known = msgspec.json.decode(file.read_bytes(), type=Secrets)
        if not known.secrets_key:  # written by a version that had no secrets of jobs
            known = msgspec.structs.replace(known, secrets_key=secrets.token_urlsafe(32))
            write_private(file, msgspec.json.format(msgspec.json.encode(known)) + b"\n")
        return known
    except msgspec.DecodeError as error:
        raise FolderRefused(
            f"{file} is damaged ({error}). Restore it from a backup: without it the database of"
            " this folder cannot be opened."
        ) from None


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its owner can read, completely or not at all."""
    fresh = file.with_name(f"{file.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(descriptor)
    fresh.rename(file)
