"""The isolation of runs on this machine: their user, processors, and the files closed to them."""

import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import RunId
from fairlead_common.service.settings import FILE_VARIABLE, SettingsError
from fairlead_executor.confinement import child
from fairlead_executor.confinement.choice import Choice

EVERY_QUEUE: Final = "*"


class User(NamedTuple):
    """A user of this machine who runs jobs."""

    name: str
    uid: int
    gid: int
    groups: Sequence[int]
    home: str
    shell: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a login sets."""
        return {"USER": self.name, "LOGNAME": self.name, "HOME": self.home, "SHELL": self.shell}


class Isolation:
    """The confinement of every run of one executor."""

    def __init__(
        self, choice: Choice, closed: Sequence[str], users: Mapping[str, User], cpus: Sequence[int]
    ) -> None:
        self.choice = choice
        self.closed = list(closed) if choice.confines else []
        self._users = users
        self.processors = Processors(cpus)

    def user_of(self, queue: str) -> User | None:
        """The user as whom jobs of this queue run; None: the user of this process."""
        return self._users.get(queue, self._users.get(EVERY_QUEUE))


class Processors:
    """The processors of each run: as many as it requests, those with the least load."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._load = dict.fromkeys(cpus, 0.0)
        self._runs: dict[RunId, tuple[list[int], float]] = {}

    def assign(self, run: RunId, cpu_milli: int) -> list[int]:
        """Assign processors to this run; empty: all of them."""
        count = -(-cpu_milli // 1000)
        if not 0 < count < len(self._load):
            return []
        chosen = sorted(self._load, key=lambda cpu: (self._load[cpu], cpu))[:count]
        share = cpu_milli / count
        for cpu in chosen:
            self._load[cpu] += share
        self._runs[run] = (chosen, share)
        return chosen

    def release(self, run: RunId) -> None:
        """Release the processors of a run that has ended."""
        chosen, share = self._runs.pop(run, ([], 0.0))
        for cpu in chosen:
            self._load[cpu] -= share


def find_users(names: Mapping[str, str], data: Path) -> dict[str, User]:
    """The users by queue. Raises `SettingsError` if a user does not exist or has no access."""
    if names and os.geteuid() != 0:
        detail = "needs an executor that runs as root"
        raise SettingsError([FieldError("FAIRLEAD_JOB_USERS", detail)])
    found: dict[str, User] = {}
    errors: list[FieldError] = []
    for queue, name in names.items():
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            errors.append(FieldError("FAIRLEAD_JOB_USERS", f"{queue}: there is no user {name!r}"))
            continue
        groups = os.getgrouplist(name, entry.pw_gid)
        found[queue] = User(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell)
        if entry.pw_uid == 0:
            errors.append(FieldError("FAIRLEAD_JOB_USERS", f"{queue}: {name!r} is root"))
    if found:
        for folder in data.parents:
            if folder.exists() and not folder.stat().st_mode & 0o001:
                detail = f"other users cannot pass {folder} to reach the data folder {data}"
                errors.append(FieldError("FAIRLEAD_JOB_USERS", detail))
    if errors:
        raise SettingsError(errors)
    return found


def make_searchable(folders: Sequence[Path]) -> None:
    """Permit all users to reach paths below these folders, without listing the folders."""
    for folder in folders:
        folder.chmod(folder.stat().st_mode | 0o011)


def closed_paths(data: Path, environment: Mapping[str, str]) -> list[str]:
    """The data folder of the installation, and its settings file, which can contain passwords."""
    paths = [os.path.realpath(data)]
    file = environment.get(FILE_VARIABLE)
    if file and os.path.isfile(file):
        path = os.path.realpath(file)
        if not path.startswith(f"{paths[0]}/"):
            paths.append(path)
    return paths


def describe(choice: Choice) -> str:
    """One sentence for the log of the executor."""
    if not choice.confines:
        return f"jobs are not confined: {choice.why}"
    signals = "" if choice.abi >= child.SIGNAL_ABI else ", except for signals (needs Linux 6.12)"
    return f"jobs are confined by {choice.method}{signals}"
