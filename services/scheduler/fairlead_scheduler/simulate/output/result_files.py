"""Writes the results of a simulation to a folder. A file gets its name when it is complete."""

import csv
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, TextIO

import msgspec

from fairlead_common.domain.lifecycle import JobState
from fairlead_scheduler.simulate.model.ledger import NOT_YET, Ledger, QueueRows, RunEnd
from fairlead_scheduler.simulate.model.trace import Trace

JOBS: Final = "jobs.csv"
QUEUES: Final = "queues.csv"
RUNS: Final = "runs.csv"
SUMMARY: Final = "summary.json"
TIMING: Final = "timing.json"
REPORT: Final = "report.html"
HEADERS: Final = {
    JOBS: "id,queue,submit_s,start_s,end_s,state,runs,preemptions,lost_s",
    QUEUES: "time,queue,weight_share,fair_share,actual_share,queued,running",
    RUNS: "id,run,node,start_s,end_s,outcome",
}
_PART: Final = ".part"


class Rows(Protocol):
    """What `csv.writer` returns."""

    def writerow(self, row: Iterable[object], /) -> object:
        """Write a row."""

    def writerows(self, rows: Iterable[Iterable[object]], /) -> None:
        """Write rows."""


class NullSink:
    """A sink that writes nothing."""

    def write_run(
        self, job: int, run: int, node: str, start_ms: int, end_ms: int, outcome: RunEnd
    ) -> None:
        """Do nothing."""

    def write_shares(self, at_ms: int, rows: QueueRows) -> None:
        """Do nothing."""

    def __enter__(self) -> "NullSink":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def finish(self, ledger: Ledger, summary: object, report: Callable[[], str]) -> None:
        """Do nothing."""


class FolderSink:
    """The files of one simulation: runs and shares are written immediately, the rest at the end."""

    def __init__(self, path: Path, trace: Trace) -> None:
        self._path, self._trace = path, trace
        self._open: dict[str, TextIO] = {}
        self._rows = {name: self._open_table(name) for name in (RUNS, QUEUES)}

    def __enter__(self) -> "FolderSink":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for name, file in self._open.items():
            file.close()
            (self._path / (name + _PART)).unlink(missing_ok=True)

    def _open_table(self, name: str) -> "Rows":
        self._path.mkdir(parents=True, exist_ok=True)
        file = self._open[name] = (self._path / (name + _PART)).open(
            "w", encoding="utf-8", newline=""
        )
        file.write(HEADERS[name] + "\n")
        return csv.writer(file, lineterminator="\n")

    def write_run(
        self, job: int, run: int, node: str, start_ms: int, end_ms: int, outcome: RunEnd
    ) -> None:
        """Write the row of a run that ended."""
        self._rows[RUNS].writerow(
            (
                self._trace.name_of(job),
                run,
                node,
                format_seconds(start_ms),
                format_seconds(end_ms),
                outcome.value,
            )
        )

    def write_shares(self, at_ms: int, rows: QueueRows) -> None:
        """Write the rows of these queues from `at_ms` on."""
        names = map(self._trace.queues.values.__getitem__, rows.queue)
        time = repeat(format_seconds(at_ms))
        self._rows[QUEUES].writerows(zip(time, names, *rows[1:], strict=False))

    def finish(self, ledger: Ledger, summary: object, report: Callable[[], str]) -> None:
        """Write the remaining files and rename all files to their final names."""
        self._open_table(JOBS).writerows(_list_job_rows(ledger))
        for name, file in list(self._open.items()):
            file.close()
            (self._path / (name + _PART)).replace(self._path / name)
            del self._open[name]
        write_file(self._path, SUMMARY, encode_json(summary))
        write_file(self._path, REPORT, report())


def write_file(folder: Path, name: str, text: str) -> None:
    """Write a file atomically."""
    part = folder / (name + _PART)
    part.write_text(text, encoding="utf-8")
    part.replace(folder / name)


def encode_json(value: object) -> str:
    """Indented JSON with a new line at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def format_seconds(time_ms: int) -> str:
    """Virtual time in seconds; empty if it has not happened."""
    if time_ms == NOT_YET:
        return ""
    whole, rest = divmod(time_ms, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def _list_job_rows(ledger: Ledger) -> Iterable[tuple[object, ...]]:
    trace = ledger.trace
    for job in range(len(trace)):
        state = ledger.state_of(job)
        yield (
            trace.name_of(job),
            trace.queues.values[trace.queue[job]],
            format_seconds(trace.submit_ms[job]),
            format_seconds(ledger.start_ms[job]),
            format_seconds(NOT_YET if state is JobState.QUEUED else ledger.end_ms[job]),
            state.value,
            ledger.runs[job],
            ledger.preemptions[job],
            format_seconds(ledger.lost_ms[job]),
        )
