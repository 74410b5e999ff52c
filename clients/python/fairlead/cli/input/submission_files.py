"""Reading what `fairlead submit` is given: YAML or JSON, one or several submissions."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.errors import FairleadError

FILE_BYTES_MAX: Final = 512 * 2**20


class Unreadable(FairleadError):
    """The file is not a submission; the message says why."""


class Submission(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Jobs and groups of one job set; the server validates them."""

    jobs: list[dict[str, object]] = []
    groups: list[dict[str, object]] = []
    queue: str = ""
    job_set: str = ""
    defaults: dict[str, object] | None = None

    @property
    def full_name(self) -> str:
        """The queue and the name of the job set, for people."""
        return f"{self.queue}/{self.job_set}"


def decode_submissions(file: str, documents: Iterable[object]) -> list[Submission]:
    """The submissions in the documents of a file. Raises `Unreadable`."""
    given = list(documents)
    return [
        _decode_submission(describe_document(file, number, len(given)), document)
        for number, document in enumerate(given, 1)
    ]


def are_manifests(file: str, documents: Sequence[object]) -> bool:
    """Whether the documents are manifests of Kubernetes. Raises `Unreadable` if only some are."""
    found = [isinstance(one, dict) and "apiVersion" in one and "kind" in one for one in documents]
    if any(found) and not all(found):
        other = found.index(False) + 1
        raise Unreadable(
            f"{describe_file(file)} has manifests of Kubernetes and, as document {other}, something"
            " else. Put them in separate files."
        )
    return any(found)


def load_documents(file: str) -> list[object]:
    """The documents of a YAML or JSON file, or of standard input for `-`. Raises `Unreadable`."""
    return _parse_documents(file, _read_bytes(file))


def fill_job_sets(
    file: str, submissions: Sequence[Submission], queue: str, job_set: str
) -> list[Submission]:
    """The submissions of a file with queue and job set of the command line, if given. Raises
    `Unreadable` without either.
    """
    count = len(submissions)
    return [
        _fill_job_set(describe_document(file, number, count), submission, queue, job_set)
        for number, submission in enumerate(submissions, 1)
    ]


def _fill_job_set(name: str, submission: Submission, queue: str, job_set: str) -> Submission:
    filled = msgspec.structs.replace(
        submission, queue=queue or submission.queue, job_set=job_set or submission.job_set
    )
    for value, key, option in (
        (filled.queue, "queue", "queue"),
        (filled.job_set, "jobSet", "jobset"),
    ):
        if not value:
            raise Unreadable(f"{name} names no {key}; add it there, or give --{option} NAME.")
    if not filled.jobs and not filled.groups:
        raise Unreadable(f"{name} has neither jobs nor groups for {filled.full_name}.")
    if filled.defaults is not None and not filled.jobs:
        raise Unreadable(
            f"{name} has `defaults`, which apply to jobs only; give the fields in each role's"
            " template."
        )
    return filled


def describe_file(file: str) -> str:
    """The file as a message names it."""
    return "standard input" if file == "-" else file


def describe_document(file: str, number: int, count: int) -> str:
    """The document with this number of a file with `count` documents, as a message names it."""
    name = describe_file(file)
    return name if count == 1 else f"{name}, document {number}"


def _read_bytes(file: str) -> bytes:
    try:
        if file == "-":
            text = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(file).open("rb") as opened:
                text = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unreadable(f"{describe_file(file)} cannot be read: {error.strerror}") from error
    if len(text) > FILE_BYTES_MAX:
        raise Unreadable(
            f"{describe_file(file)} is larger than {FILE_BYTES_MAX >> 20} MiB; split it into"
            " several files."
        )
    return text


def _parse_documents(file: str, text: bytes) -> list[object]:
    if text.lstrip()[:1] == b"{":
        try:
            found = msgspec.json.decode(text)
            _check_keys(text, found)
            return [found]
        except _DuplicateKeyError as error:
            raise Unreadable(f"{describe_file(file)} is not valid JSON: {error}") from error
        except msgspec.DecodeError as error:
            if file.endswith(".json"):
                raise Unreadable(f"{describe_file(file)} is not valid JSON: {error}") from error
    from fairlead.cli.output import yaml_text

    try:
        found = yaml_text.read_documents(text)
    except yaml_text.Unreadable as error:
        raise Unreadable(f"{describe_file(file)} is not valid YAML: {error}") from error
    if not found:
        raise Unreadable(f"{describe_file(file)} is empty.")
    return found


class _DuplicateKeyError(ValueError):
    """An object has a key twice."""


def _check_keys(text: bytes, found: object) -> None:
    """Raise `_DuplicateKeyError` for an object with a repeated key: parsers differ on its value.

    The decoded value has as many colons as the text unless a key is repeated, so the slow check of
    every key runs only for a text with another number of colons.
    """
    if text.count(b":") != msgspec.json.encode(found).count(b":"):
        json.loads(text, object_pairs_hook=_refuse_duplicate_keys)


def _refuse_duplicate_keys(pairs: list[tuple[str, object]]) -> None:
    keys = set()
    for key, _ in pairs:
        if key in keys:
            raise _DuplicateKeyError(f"the key {key!r} occurs twice")
        keys.add(key)


def _decode_submission(name: str, document: object) -> Submission:
    try:
        return msgspec.convert(document, Submission)
    except msgspec.ValidationError as error:
        raise Unreadable(
            f"{name} is not valid: {error}. Expected are queue, jobSet, jobs or"
            " groups, and perhaps defaults."
        ) from error
