"""The group files of runs: `runs/<run>/group/members.json`, which the command can only read."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, RunId, run_id
from fairlead_common.domain.records.leases import Lease
from fairlead_common.service.json_logging import run_fields
from fairlead_executor.backends.process.folders import Folders
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.environment import MASTER_ADDRESS, is_master

FOLDER: Final = "group"
FILE: Final = "members.json"
VARIABLE: Final = "FAIRLEAD_GROUP_FILE"

_logger = logging.getLogger("fairlead.executor")


class GroupFiles:
    """Writes the group file of each run of a group. `address`: where runs of this machine are
    reached."""

    def __init__(self, folders: Folders, address: str, is_live: Callable[[RunId], bool]) -> None:
        self._folders = folders
        self._address = address
        self._is_live = is_live
        self._content: dict[GroupId, bytes] = {}

    def write(self, group: GroupFile) -> None:
        """Replace the file of each live run, and remember it for runs that are created next."""
        self._content[group.group] = group.content
        for run in group.runs:
            if self._is_live(run):
                self._replace(run, group.content)

    def prepare(self, lease: Lease) -> tuple[Lease, list[str]]:
        """Write the file of a run that is created now; the lease with what it finds in its
        environment, and the folders that it reads."""
        if lease.member is None:
            return lease, []
        run = run_id(lease.job_id, lease.run)
        folder = self._replace(run, self._content.get(lease.member.group, b"{}"))
        env = {**lease.env, VARIABLE: str(folder / FILE)}
        if is_master(lease):
            env[MASTER_ADDRESS] = self._address
        return msgspec.structs.replace(lease, env=env), [str(folder)]

    def forget(self) -> None:
        """Forget the content for runs that were created: the next ones come with a new one."""
        self._content.clear()

    def _replace(self, run: RunId, content: bytes) -> Path:
        """Readers see the old file or the new one. A file that cannot be written stays as it is."""
        folder = self._folders.folder(run) / FOLDER
        try:
            if not folder.is_dir():
                folder.parent.mkdir(mode=0o700, exist_ok=True)
                folder.mkdir()
                folder.chmod(0o755)
            new = folder / f"{FILE}.new"
            new.write_bytes(content)
            new.chmod(0o644)
            os.replace(new, folder / FILE)
        except OSError as error:
            _logger.error(
                "cannot write the group file of %s: %s", run, error, extra=run_fields(run)
            )
        return folder
