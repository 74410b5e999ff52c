"""Decoding of NDJSON with one job per line, with all errors."""

from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import (
    OBJECTS_MAX,
    Decoder,
    has_all_names,
    validation_problem,
)
from fairlead_submit.domain import secret_variables
from fairlead_submit.domain.request_types import Job, Submission

LINE_BYTES_MAX: Final = 2**20

_JOBS_POINTER: Final = "/jobs/"
_decoder: Final = msgspec.json.Decoder(Job)
_encode: Final = msgspec.json.Encoder().encode


class JobLineDecoder:
    """Decodes NDJSON, one job per line, while the body arrives.

    Valid lines are decoded in batches. The others are retained and decoded at the end, so that one
    response names every error.
    """

    def __init__(self, jobs_max: int) -> None:
        self._jobs_max = jobs_max
        self._decoder = Decoder(Job)
        self._incomplete_line = b""
        self._objects = 0
        self._line_count = 0
        self._jobs: list[Job] = []
        self._lines: list[int] = []
        self._invalid: list[tuple[int, bytes]] = []
        self.invalid_bytes = 0
        """The number of bytes that `finish` decodes."""
        self.may_have_secrets = False
        """Whether a line possibly has a secret value or refers to a secret."""

    def feed(self, piece: bytes) -> None:
        """Decode the next piece. Raises a 413 or 422 `Problem` when a limit is exceeded."""
        lines_text, _, self._incomplete_line = (self._incomplete_line + piece).rpartition(b"\n")
        if len(self._incomplete_line) > LINE_BYTES_MAX:
            raise _too_long(self._line_count + lines_text.count(b"\n") + 1)
        if lines_text:
            self._decode_lines(lines_text)

    def finish(self, queue: str | None, job_set: str | None) -> tuple[Submission, list[FieldError]]:
        """The jobs as a request, and the errors of their lines. Raises a 400 `Problem`."""
        if self._incomplete_line:
            self._decode_lines(self._incomplete_line)
            self._incomplete_line = b""
        found: list[FieldError] = []
        malformed: list[FieldError] = []
        for index, body in self._invalid:
            try:
                self._jobs[index], line_errors = self._decoder.decode_with_errors(body)
                found += [
                    FieldError(f"{_JOBS_POINTER}{index}{item.pointer}", item.detail)
                    for item in line_errors
                ]
            except Problem as problem:
                if problem.slug == "malformed":
                    malformed.append(FieldError(f"{_JOBS_POINTER}{index}", problem.detail))
                found += [
                    FieldError(f"{_JOBS_POINTER}{index}{item.pointer}", item.detail)
                    for item in problem.field_errors
                ]
            if len(found) + len(malformed) >= validation.ERRORS_MAX:
                break
        if malformed:
            raise Problem(
                "malformed",
                "Some lines are not valid JSON; they are listed in `errors`. Nothing was changed.",
                [*malformed, *found],
            )
        if len(found) >= validation.ERRORS_MAX:
            raise validation_problem(found)
        return Submission(queue=queue, job_set=job_set, jobs=self._jobs), found

    def locate(self, found: Iterable[FieldError]) -> list[FieldError]:
        """The same errors with the pointers of the client's lines, counted from 1."""
        return [FieldError(self._line_pointer(error.pointer), error.detail) for error in found]

    def _line_pointer(self, pointer: str) -> str:
        if pointer in ("/queue", "/jobSet"):
            return f"/query{pointer}"
        if not pointer.startswith(_JOBS_POINTER):
            return pointer
        index, slash, rest = pointer.removeprefix(_JOBS_POINTER).partition("/")
        return f"/lines/{self._lines[int(index)]}{slash}{rest}"

    def _decode_lines(self, lines_text: bytes) -> None:
        """Decode complete lines, all at once if each seems to be one object."""
        self.may_have_secrets = self.may_have_secrets or secret_variables.may_have_secrets(
            lines_text
        )
        self._objects += lines_text.count(b"{")
        if self._objects > OBJECTS_MAX:
            raise Problem(
                "too-large",
                f"The body has more than {OBJECTS_MAX} objects. Send the jobs in several requests.",
            )
        lines = lines_text.split(b"\n")
        first, self._line_count = self._line_count + 1, self._line_count + len(lines)
        if len(self._jobs) + sum(1 for line in lines if line.strip()) > self._jobs_max:
            detail = f"has more than {self._jobs_max} jobs, the maximum of one request"
            raise validation_problem([FieldError("", detail)])
        # If each line begins and ends like this, no value continues on the next line.
        if all(line.startswith(b"{") and line.rstrip().endswith(b"}") for line in lines):
            jobs = self._decode_batch(lines_text)
            if jobs is not None and len(jobs) == len(lines):
                self._jobs += jobs
                self._lines += range(first, first + len(lines))
                return
        for number, line in enumerate(lines, first):
            if line.strip():
                self._decode_line(number, line)

    def _decode_batch(self, lines_text: bytes) -> list[Job] | None:
        if b"\\" in lines_text and b"\\u0000" in lines_text:
            return None
        try:
            jobs = _decoder.decode_lines(lines_text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return jobs if has_all_names(lines_text, _encode(jobs)) else None

    def _decode_line(self, number: int, line: bytes) -> None:
        if len(line) > LINE_BYTES_MAX:
            raise _too_long(number)
        self._lines.append(number)
        job = self._decoder.decode_valid(line)
        if job is None:
            self._invalid.append((len(self._jobs), line))
            self.invalid_bytes += len(line)
            job = Job()
        self._jobs.append(job)


def _too_long(number: int) -> Problem:
    return Problem(
        "too-large", f"Line {number} is longer than {LINE_BYTES_MAX} bytes, the maximum of one job."
    )
