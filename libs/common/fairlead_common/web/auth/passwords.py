"""Passwords from a file of argon2 hashes, for small installations.

A line is `name:hash` or `name:hash:group,group`; `#` begins a comment.
`python -m fairlead_common.web.auth.passwords NAME` asks for a password and prints a line. The file
is read again when it has changed. Hashing is slow by design, so it happens in threads, few at a
time, and a correct password is remembered for a minute by a digest under a key of this process.
"""

import asyncio
import getpass
import hmac
import re
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import argon2
import msgspec
from cachetools import TTLCache

from fairlead_common.domain.errors import FieldError, WorldError
from fairlead_common.domain.permissions import GROUP, Caller
from fairlead_common.domain.problems import Problem
from fairlead_common.service.access_settings import RoleBinding
from fairlead_common.web.auth import role_bindings

RIGHT_S: Final = 60.0
WRONG_S: Final = 10.0
CACHED_ANSWERS_MAX: Final = 10_000
CHECK_S: Final = 1.0
THREADS_MAX: Final = 2
"""Each takes a core and 64 MiB for some 50 ms."""
WAITING_MAX: Final = 32
FILE_BYTES_MAX: Final = 4 * 2**20
PASSWORD_BYTES_MAX: Final = 1_024
NAME: Final = re.compile(r"[^\s:,#][^\s:,]{0,252}")
_hasher: Final = argon2.PasswordHasher()


class User(msgspec.Struct, frozen=True):
    """One line of the file."""

    hash: str
    groups: tuple[str, ...] = ()


class PasswordFileError(WorldError):
    """The file of passwords cannot be read."""


def parse(text: str) -> tuple[dict[str, User], list[FieldError]]:
    """The users by name, and the errors by line."""
    users: dict[str, User] = {}
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        hashed, _, groups = rest.partition(":")
        if not NAME.fullmatch(name) or name.startswith(GROUP) or name in users:
            found.append(
                FieldError(f"line {number}", f"{name[:40]!r} is not a valid name, or occurs twice")
            )
        try:
            argon2.extract_parameters(hashed)
        except argon2.exceptions.InvalidHashError:
            found.append(FieldError(f"line {number}", "has no argon2 hash after its name"))
            continue
        users[name] = User(hashed, tuple(group for group in groups.split(",") if group))
    return users, found


class Passwords:
    """Finds the caller of a user name and password."""

    def __init__(
        self, file: Path, roles: Sequence[RoleBinding], now_s: Callable[[], float]
    ) -> None:
        self._file = file
        self._roles = tuple(roles)
        self._now_s = now_s
        self._key = secrets.token_bytes(32)
        self._users: dict[str, User] = {}
        self._seen: tuple[int, int, int] | None = None
        self._checked_s = -CHECK_S
        self._nobody = _hasher.hash(secrets.token_urlsafe(16))
        self._right: TTLCache[bytes, Caller] = TTLCache(CACHED_ANSWERS_MAX, RIGHT_S, timer=now_s)
        self._wrong: TTLCache[bytes, bool] = TTLCache(CACHED_ANSWERS_MAX, WRONG_S, timer=now_s)
        self._threads = asyncio.Semaphore(THREADS_MAX)
        self._waiting = 0

    def find_cached(self, name: str, password: str) -> Caller | None:
        """The caller, if the password was verified a moment ago."""
        return self._right.get(self._mark(name, password))

    async def find(self, name: str, password: str) -> Caller:
        """The caller. Raises a 401 or 503 `Problem`, or `PasswordFileError`."""
        self._reload()
        if len(password.encode()) > PASSWORD_BYTES_MAX:
            raise _wrong()
        mark = self._mark(name, password)
        if (known := self._right.get(mark)) is not None:
            return known
        if mark in self._wrong:
            raise _wrong()
        user = self._users.get(name)
        right = await self._verified(self._nobody if user is None else user.hash, password)
        if user is None or not right or self._users.get(name) != user:
            self._wrong[mark] = True
            raise _wrong()
        caller = self._right[mark] = role_bindings.bind_roles(name, user.groups, self._roles)
        return caller

    async def _verified(self, hashed: str, password: str) -> bool:
        """Whether the password is right. Takes as long for a user name that does not exist."""
        if self._waiting >= WAITING_MAX:
            raise Problem(
                "unavailable",
                "Too many passwords are being checked at the moment. Try again.",
                retry_after_s=1,
            )
        self._waiting += 1
        try:
            async with self._threads:
                return await asyncio.to_thread(_verify, hashed, password)
        finally:
            self._waiting -= 1

    def _mark(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")

    def _reload(self) -> None:
        """Read the file if it has changed; a file with errors changes nothing."""
        now_s = self._now_s()
        if now_s - self._checked_s < CHECK_S:
            return
        self._checked_s = now_s
        try:
            about = self._file.stat()
            seen = (about.st_mtime_ns, about.st_size, about.st_ino)
            if seen == self._seen:
                return
            if about.st_size > FILE_BYTES_MAX:
                raise PasswordFileError(f"{self._file} is larger than {FILE_BYTES_MAX} bytes")
            users, found = parse(self._file.read_text())
        except (OSError, UnicodeError) as error:
            raise PasswordFileError(f"{self._file} cannot be read: {error}") from error
        if found:
            lines = "; ".join(f"{error.pointer} {error.detail}" for error in found[:5])
            raise PasswordFileError(f"{self._file}: {lines}")
        self._users, self._seen = users, seen
        self._right.clear()
        self._wrong.clear()


def _verify(hashed: str, password: str) -> bool:
    try:
        return _hasher.verify(hashed, password)
    except argon2.exceptions.VerificationError:
        return False


def _wrong() -> Problem:
    return Problem("unauthenticated", "The user name or the password is wrong.")


def main(words: Sequence[str]) -> None:
    """Print a line for the password file."""
    match words:
        case [name] if NAME.fullmatch(name) and not name.startswith(GROUP):
            print(f"{name}:{_hasher.hash(getpass.getpass(f'Password of {name}: '))}")  # noqa: T201
        case _:
            sys.exit("usage: python -m fairlead_common.web.auth.passwords NAME")


if __name__ == "__main__":
    main(sys.argv[1:])
