"""Jobs one a line (NDJSON), decoded while they come. Pure.

Lines that are as they should be are decoded many at a time; the others are kept as they are, and
looked through at the end, so that one answer names everything that is wrong.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_submit.domain import validation
from fairlead_submit.domain.decoding import OBJECTS_MAX, Decoder, invalid
from fairlead_submit.domain.request_types import Job, Submission

LINE_BYTES_MAX: Final = 2**20

_AT: Final = "/jobs/"
_decoder: Final = msgspec.json.Decoder(Job)
_encode: Final = msgspec.json.Encoder().encode


class Lines:
    """Takes a body piece by piece."""

    def __init__(self, jobs_max: int) -> None:
        self._jobs_max = jobs_max
        self._decoder = Decoder(Job)
        self._rest = b""
        self._objects = 0
        self._count = 0
        self._jobs: list[Job] = []
        self._lines: list[int] = []
        self._odd: list[tuple[int, bytes]] = []
        self.odd_bytes = 0
        """How much `submission` has to look through."""

    def feed(self, piece: bytes) -> None:
        """Take the next piece. Raises a 413 or 422 `Problem` as soon as it is too much."""
        whole, _, self._rest = (self._rest + piece).rpartition(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise _too_long(self._count + whole.count(b"\n") + 1)
        if whole:
            self._take(whole)

    def submission(
        self, queue: str | None, job_set: str | None
    ) -> tuple[Submission, list[FieldError]]:
        """The jobs as a request, and the faults of their lines. Raises a 400 `Problem`."""
        if self._rest:
            self._take(self._rest)
            self._rest = b""
        found: list[FieldError] = []
        unread: list[FieldError] = []
        for index, body in self._odd:
            try:
                self._jobs[index], some = self._decoder.slow(body)
                found += [FieldError(f"{_AT}{index}{item.pointer}", item.detail) for item in some]
            except Problem as problem:
                if problem.slug == "malformed":
                    unread.append(FieldError(f"{_AT}{index}", problem.detail))
                found += [
                    FieldError(f"{_AT}{index}{item.pointer}", item.detail)
                    for item in problem.field_errors
                ]
            if len(found) + len(unread) >= validation.FAULTS_MAX:
                break
        if unread:
            raise Problem(
                "malformed",
                "Not every line is JSON that can be read; nothing was done.",
                [*unread, *found],
            )
        if len(found) >= validation.FAULTS_MAX:
            raise invalid(found)
        return Submission(queue=queue, job_set=job_set, jobs=self._jobs), found

    def placed(self, found: Iterable[FieldError]) -> list[FieldError]:
        """The same faults where the client finds them: by line, counted from 1."""
        return [FieldError(self._place(fault.pointer), fault.detail) for fault in found]

    def _place(self, pointer: str) -> str:
        if pointer in ("/queue", "/jobSet"):
            return f"/query{pointer}"
        if not pointer.startswith(_AT):
            return pointer
        index, slash, rest = pointer.removeprefix(_AT).partition("/")
        return f"/lines/{self._lines[int(index)]}{slash}{rest}"

    def _take(self, whole: bytes) -> None:
        """Decode whole lines, all at once if nothing is odd about any."""
        self._objects += whole.count(b"{")
        if self._objects > OBJECTS_MAX:
            raise Problem("too-large", f"The body holds more than {OBJECTS_MAX} objects.")
        lines = whole.split(b"\n")
        first, self._count = self._count + 1, self._count + len(lines)
        if len(self._jobs) + sum(1 for line in lines if line.strip()) > self._jobs_max:
            detail = f"holds more than {self._jobs_max} jobs, which is as many as are allowed"
            raise invalid([FieldError("", detail)])
        # Where each line begins and ends so, no value goes on over the end of a line.
        if all(line.startswith(b"{") and line.rstrip().endswith(b"}") for line in lines):
            jobs = self._all(whole)
            if jobs is not None and len(jobs) == len(lines):
                self._jobs += jobs
                self._lines += range(first, first + len(lines))
                return
        for number, line in enumerate(lines, first):
            if line.strip():
                self._take_one(number, line)

    def _all(self, whole: bytes) -> list[Job] | None:
        if b"\\" in whole and b"\\u0000" in whole:
            return None
        try:
            jobs = _decoder.decode_lines(whole)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return jobs if validation.says_all(whole, _encode(jobs)) else None

    def _take_one(self, number: int, line: bytes) -> None:
        if len(line) > LINE_BYTES_MAX:
            raise _too_long(number)
        self._lines.append(number)
        job = self._decoder.fast(line)
        if job is None:
            self._odd.append((len(self._jobs), line))
            self.odd_bytes += len(line)
            job = Job()
        self._jobs.append(job)


def _too_long(number: int) -> Problem:
    return Problem(
        "too-large", f"Line {number} is longer than {LINE_BYTES_MAX} bytes, as are no jobs."
    )
