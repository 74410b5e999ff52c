"""The folders of runs: the records in them, and the state of a run that follows from these.

    runs/<run>/start      made once, complete and locked: who runs it, or that it never starts; a
                          second line says that the command was executed
               stop       the request to stop the run
               exit       how the run ended, written by the runner, or by the executor when the
                          runner no longer exists
               stdout stderr work/
               group/         the live members of its group (`group_files.py`)
    kept/<run>/           the same after the executor has removed the run: its log can be read

The folders are the source of truth about runs, so an executor that starts recovers all of them.
"""

import os
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from fairlead_common.domain.ids import JOB_ID_LENGTH, RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.service import clock
from fairlead_executor.backends.process import exit_reasons, processes, runner
from fairlead_executor.backends.process.tree_removal import remove_tree
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.domain.run_logs import NoLog

RUN: Final = re.compile(rf"[0-9a-z]{{{JOB_ID_LENGTH}}}-[0-9]{{1,9}}")
RECORD_BYTES_MAX: Final = 64 * 1024


class Start(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The process that runs the command. `prevented_end`: the end of a run that never starts."""

    at_ms: int = 0
    runner: int = 0
    boot: str = ""
    grace_s: int = 30
    memory_bytes: int = 0
    prevented_end: End | None = msgspec.field(default=None, name="ruledOut")


class Exit(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How it ended: the wait status of the command, why it was stopped, or why it never started.

    `lost` is the end of a run whose runner no longer exists.
    """

    at_ms: int = 0
    status: int | None = None
    stop: End | None = None
    error: tuple[str, int | None, str, str] | None = None
    oom: bool = False
    lost: End | None = None


class StopRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A request to the runner to stop the run."""

    grace_s: int
    end: End


class ExecutionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """When the command was executed."""

    at_ms: int


_starts: Final = msgspec.json.Decoder(Start)
_executed: Final = msgspec.json.Decoder(ExecutionRecord)
_exits: Final = msgspec.json.Decoder(Exit)
_stops: Final = msgspec.json.Decoder(StopRecord)
_DAMAGED: Final = Exit(
    lost=pods.failed(FailureCategory.NODE_LOST, "the run was lost: its record is damaged")
)


class Folders:
    """All run folders of one executor. `address`: where runs of this machine are reached."""

    def __init__(self, root: Path, node: str, address: str = "") -> None:
        self.root = root
        self.runs = root / "runs"
        self.retained = root / "kept"
        self._node = node
        self._address = address
        self._boot = runner.boot_id()
        for folder in (root, self.runs, self.retained):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def folder(self, run: RunId) -> Path:
        """The folder of the run. Only valid run ids become paths."""
        if not RUN.fullmatch(run):
            raise ValueError(f"{run!r} is not a valid run id")
        return self.runs / run

    def create(self, run: RunId) -> None:
        """Create the folder of a run that is requested. Its runner does not create it: a request
        that is still on its way when the run is removed starts nothing."""
        self.folder(run).mkdir(mode=0o700, exist_ok=True)

    def all(self) -> list[RunId]:
        """The runs that have a folder, oldest first."""
        with os.scandir(self.runs) as entries:
            found = [(entry.stat().st_mtime_ns, entry.name) for entry in entries]
        return [RunId(name) for _, name in sorted(found) if RUN.fullmatch(name)]

    def read_pod(self, run: RunId) -> Pod | None:
        """The pod of this run according to its folder; None if the run was never claimed."""
        folder = self.folder(run)
        found = _read_start(folder / runner.START)
        if found is None:
            return None
        start, started_ms = found
        if start.prevented_end is not None:
            return Pod(run, Phase.ENDED, self._node, ended_ms=start.at_ms, end=start.prevented_end)
        ended = _read(folder / runner.EXIT, _exits, _DAMAGED)
        if ended is not None:
            return Pod(
                run,
                Phase.ENDED,
                self._node,
                started_ms=started_ms,
                ended_ms=ended.at_ms,
                grace_s=start.grace_s,
                end=read_end(ended),
                address=self._address,
            )
        return Pod(
            run,
            Phase.RUNNING if started_ms else Phase.CREATED,
            self._node,
            started_ms=started_ms,
            stopping=(folder / runner.STOP).exists(),
            grace_s=start.grace_s,
            address=self._address,
        )

    def read_start(self, run: RunId) -> Start | None:
        """The start record; None if the run was never claimed."""
        found = _read_start(self.folder(run) / runner.START)
        return None if found is None else found[0]

    def has_runner(self, run: RunId) -> bool:
        """Whether the runner of the run still exists."""
        return processes.is_locked(self.folder(run) / runner.START)

    def record_lost_run(self, run: RunId) -> None:
        """If the run was claimed, has no exit record and its runner no longer exists: end the
        processes that it left, and write an exit record that says that the run is lost."""
        folder = self.folder(run)
        start = self.read_start(run)
        if start is None or start.prevented_end is not None or self.has_runner(run):
            return
        if (folder / runner.EXIT).exists():
            return
        same_boot = start.boot == self._boot
        if same_boot:
            processes.end_session(start.runner)
        reason = "its runner process was killed" if same_boot else "the machine was restarted"
        record = Exit(
            at_ms=clock.now_ms(),
            lost=pods.failed(FailureCategory.NODE_LOST, f"the run was lost: {reason}"),
        )
        runner.write_record(str(folder), runner.EXIT, msgspec.to_builtins(record))

    def prevent_start(self, run: RunId, end: End, now_ms: int) -> None:
        """Write a start record that prevents the run from starting, if there is no start record."""
        self.create(run)
        record = Start(at_ms=now_ms, prevented_end=end)
        claimed = runner.claim(str(self.folder(run)), msgspec.to_builtins(record))
        if claimed is not None:
            os.close(claimed)

    def request_stop(self, run: RunId, grace_s: int, end: End) -> None:
        """Write the stop record and wake the runner; a run that is not claimed yet never starts.

        A second request keeps the end of the first one and can only shorten the grace.
        """
        folder = self.folder(run)
        start = self.read_start(run)
        if start is None:
            self.prevent_start(run, end, clock.now_ms())
            start = self.read_start(run)
        if start is None or start.runner == 0:
            return
        record = StopRecord(grace_s, end)
        before = _read(folder / runner.STOP, _stops, record)
        if before is not None:
            record = StopRecord(min(grace_s, before.grace_s), before.end)
        runner.write_record(str(folder), runner.STOP, msgspec.to_builtins(record))
        if start.boot == self._boot:
            processes.wake(start.runner, folder / runner.START)

    def retain(self, run: RunId) -> None:
        """Move the folder of a removed run to the retained folders, without its scratch folder."""
        folder = self.folder(run)
        work = folder / runner.WORK
        try:
            work.rmdir()
        except OSError:
            remove_tree(work)
        folder.rename(self.retained / run)

    def find(self, run: RunId) -> Path | None:
        """The folder of a live, ended or removed run; None if it does not exist."""
        if not RUN.fullmatch(run):
            return None
        for folder in (self.runs / run, self.retained / run):
            if folder.is_dir():
                return folder
        return None

    def find_output(self, run: RunId, stream: str) -> Path:
        """The file with an output of a run. Raises `NoLog`."""
        folder = self.find(run)
        if folder is None:
            raise NoLog("the run has not started here, or its log has been removed")
        path = folder / stream
        if not path.exists():
            raise NoLog("the run did not start its command")
        return path


def read_end(ended: Exit) -> End:
    """The end of the run that an exit record describes."""
    if ended.lost is not None:
        return ended.lost
    if ended.error is not None:
        return exit_reasons.could_not_start(*ended.error)
    assert ended.status is not None, "an exit record says how the command ended"
    code = os.waitstatus_to_exitcode(ended.status)
    return exit_reasons.ended(code, ended.stop, oom=ended.oom)


R = TypeVar("R")


def _read(path: Path, decoder: msgspec.json.Decoder[R], damaged: R) -> R | None:
    """The record; None if it does not exist, `damaged` if a power cut left it incomplete."""
    try:
        with path.open("rb") as file:
            return decoder.decode(file.read(RECORD_BYTES_MAX))
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return damaged


def _read_start(path: Path) -> tuple[Start, int] | None:
    """The start record, and when the command was executed (ms), 0 if it was not; None: no record.

    A record that a power cut left incomplete proves only that the run was claimed.
    """
    try:
        with path.open("rb") as file:
            first, _, second = file.read(RECORD_BYTES_MAX).partition(b"\n")
        executed = _executed.decode(second).at_ms if second.endswith(b"\n") else 0
        return _starts.decode(first), executed
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return Start(), 0
