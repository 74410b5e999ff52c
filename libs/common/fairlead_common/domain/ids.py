"""Job and run ids.

A job id is 28 lower-case characters: two name its partition of `fairlead.jobs`, then come the 26
of a ULID, or of a digest of queue, job set and the client's own id, so that a repeated request
names the same job. A run id is `<job id>-<n>`, n counting from 1.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NewType, TypeVar, cast

from fairlead_common.log.protocol import partition_of
from fairlead_common.log.topics import JOB_PARTITIONS

JobId = NewType("JobId", str)
RunId = NewType("RunId", str)
GroupId = NewType("GroupId", str)
"""Of the form of a job id, in the partition of its job set."""
ArrayId = NewType("ArrayId", str)
"""Of the form of a job id, in the partition of its job set, with zeros in place of a task."""

Id = TypeVar("Id", JobId, ArrayId)

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES: Final = {letter: value for value, letter in enumerate(ALPHABET)}
JOB_ID_LENGTH: Final = 28
CHARACTERS: Final = 26
DIGEST_BYTES: Final = 17
COLUMNS_MIN: Final = 64
"""From this number of ids on, they are made column by column."""

TASK_CHARACTERS: Final = 5
"""The last characters of a task's id: its index and one. Those of its array's id are zeros."""
TASK_NUMBER_STEP: Final = 32
"""The difference between the submission numbers of two tasks, as between two jobs of a message."""
CLIENT_ID_PARTS_MAX: Final = 16
"""Parts between slashes of a client id that is named after its queue and job set, at most."""
TASK_NUMBERS: Final = len(ALPHABET) ** TASK_CHARACTERS
"""How many ids begin like the id of an array."""

_PAIRS: Final = [first + second for first in ALPHABET for second in ALPHABET]


def _base32(number: int) -> str:
    """26 characters for 130 bits. Written out, two at a time, because every job needs one."""
    p = _PAIRS
    return (
        f"{p[number >> 120]}{p[number >> 110 & 1023]}{p[number >> 100 & 1023]}"
        f"{p[number >> 90 & 1023]}{p[number >> 80 & 1023]}{p[number >> 70 & 1023]}"
        f"{p[number >> 60 & 1023]}{p[number >> 50 & 1023]}{p[number >> 40 & 1023]}"
        f"{p[number >> 30 & 1023]}{p[number >> 20 & 1023]}{p[number >> 10 & 1023]}"
        f"{p[number & 1023]}"
    )


def _make_column_tables() -> list[tuple[int, bytes, bytes | None]]:
    """For each character of `_base32`: the first byte with bits of it, and what that byte and the
    next one (None if it has no bits of it) contribute to the number of the character.
    """
    tables = []
    for character in range(CHARACTERS):
        byte, bit = divmod(5 * character, 8)
        first = bytes((value << bit & 255) >> 3 for value in range(256))
        second = bytes(value >> (11 - bit) for value in range(256)) if bit > 3 else None
        tables.append((byte, first, second))
    return tables


_COLUMN_TABLES: Final = _make_column_tables()
_LETTERS: Final = ALPHABET.encode() + bytes(256 - len(ALPHABET))


def _base32_columns(prefix: str, digests: Sequence[bytes]) -> list[str]:
    """The prefix and `_base32` of the first 130 bits of each digest.

    The digests are columns of bytes, which a few operations turn into columns of characters: a
    fifth of the time of `_base32` for a thousand digests, but more for less than about thirty.
    """
    count, data = len(digests), b"".join(digests)
    width = len(prefix) + CHARACTERS
    text = bytearray(prefix.encode() + bytes(CHARACTERS)) * count
    for place, (byte, first, second) in enumerate(_COLUMN_TABLES, len(prefix)):
        column = data[byte::DIGEST_BYTES].translate(first)
        if second is not None:
            rest = data[byte + 1 :: DIGEST_BYTES].translate(second)
            whole = int.from_bytes(column, "big") | int.from_bytes(rest, "big")
            column = whole.to_bytes(count, "big")
        text[place::width] = column.translate(_LETTERS)
    whole_text = text.decode()
    return [whole_text[start : start + width] for start in range(0, count * width, width)]


def job_set_key(queue: str, job_set: str) -> str:
    """The key of a job set's records."""
    return f"{queue}/{job_set}"


def job_set_partition(queue: str, job_set: str) -> int:
    """The partition of `fairlead.jobs` that holds this job set's history."""
    return partition_of(job_set_key(queue, job_set), JOB_PARTITIONS)


def new_job_id(partition: int, time_ms: int, random_80: int) -> JobId:
    """A fresh id: partition, then a ULID made of a time and 80 random bits."""
    return JobId(_PAIRS[partition] + _base32((time_ms << 80) | random_80))


def client_job_id(partition: int, queue: str, job_set: str, client_id: str) -> JobId:
    """The id that this client id always names within its queue and job set."""
    return client_job_ids(partition, queue, job_set, [client_id])[0]


def client_job_ids(
    partition: int, queue: str, job_set: str, client_ids: Iterable[str]
) -> list[JobId]:
    """The ids that these client ids always name within their queue and job set."""
    prefix = _PAIRS[partition]
    common = hashlib.blake2b(f"{queue}\0{job_set}\0".encode(), digest_size=DIGEST_BYTES)
    digests = []
    for client_id in client_ids:
        whole = common.copy()
        whole.update(client_id.encode())
        digests.append(whole.digest())
    if len(digests) >= COLUMNS_MIN:
        return cast(list[JobId], _base32_columns(prefix, digests))
    return [JobId(prefix + _base32(int.from_bytes(item, "big") >> 6)) for item in digests]


def job_ids_of(reference: str) -> list[JobId]:
    """The ids of the jobs that a text can name: by an id, or as `queue/jobSet/clientId`.

    Job sets and client ids can contain slashes, as the client ids of members of groups do. With
    more than two slashes there are several ids. That with the longest job set is first; a client id
    has at most `CLIENT_ID_PARTS_MAX` parts.
    Raises ValueError for a text of neither form.
    """
    if is_job_id(reference):
        return [JobId(reference)]
    return _make_ids(reference, client_job_id)


def array_ids_of(reference: str) -> list[ArrayId]:
    """As `job_ids_of`, of arrays; the id of a task names its array."""
    if is_job_id(reference):
        return [array_id(reference)]
    return _make_ids(reference, client_array_id)


def _make_ids(reference: str, make: Callable[[int, str, str, str], Id]) -> list[Id]:
    """An id for each meaning of `queue/jobSet/clientId`."""
    return [
        make(job_set_partition(queue, job_set), queue, job_set, client_id)
        for queue, job_set, client_id in _split_reference(reference)
    ]


def _split_reference(reference: str) -> list[tuple[str, str, str]]:
    queue, *parts = reference.split("/")
    ends = range(len(parts) - 1, max(0, len(parts) - 1 - CLIENT_ID_PARTS_MAX), -1)
    named = [(queue, "/".join(parts[:at]), "/".join(parts[at:])) for at in ends]
    found = [each for each in named if all(each)]
    if not found:
        raise ValueError(f"{reference!r} is neither a job id nor queue/jobSet/clientId")
    return found


def partition_of_job(job_id: str) -> int:
    """The partition named by the id. Raises ValueError for a text that is not a job id."""
    if len(job_id) != JOB_ID_LENGTH or not set(job_id) <= _VALUES.keys():
        raise ValueError(f"{job_id!r} is not a job id: {JOB_ID_LENGTH} characters are expected")
    return _VALUES[job_id[0]] * 32 + _VALUES[job_id[1]]


def array_id(job_id: str) -> ArrayId:
    """The id of the array that is made instead of the job with this id."""
    return ArrayId(job_id[:-TASK_CHARACTERS] + "0" * TASK_CHARACTERS)


def is_array_id(job_id: str) -> bool:
    """Whether the id has the form of an array's id. Ids of other jobs almost never have it."""
    return job_id.endswith("0" * TASK_CHARACTERS)


def client_array_id(partition: int, queue: str, job_set: str, client_id: str) -> ArrayId:
    """The id of the array that this client id always names within its queue and job set.

    No job has an id that begins like it: the job with this client id would have that of a task.
    """
    return array_id(client_job_id(partition, queue, job_set, f"array\0{client_id}"))


def task_id(array: str, index: int) -> JobId:
    """The id of the task of an array with this index, which is at most 32^5 - 2."""
    return task_ids(array, [index])[0]


def task_ids(array: str, indexes: Iterable[int]) -> list[JobId]:
    """As `task_id` of each index."""
    prefix, pairs, letters = array[:-TASK_CHARACTERS], _PAIRS, ALPHABET
    return [
        JobId(f"{prefix}{letters[n >> 20]}{pairs[n >> 10 & 1023]}{pairs[n & 1023]}")
        for n in [index + 1 for index in indexes]
    ]


def parse_task_id(job_id: str) -> tuple[ArrayId, int]:
    """The array and the index of a task with this id.

    The index of the array's own id, and of a text that is not a job id, is -1.
    Only whether the array exists says whether the job is a task of it.
    """
    if not is_job_id(job_id):
        return array_id(job_id), -1
    number = 0
    for letter in job_id[-TASK_CHARACTERS:]:
        number = number * 32 + _VALUES[letter]
    return array_id(job_id), number - 1


def run_id(job_id: str, run: int) -> RunId:
    """The id of a job's n-th run."""
    return RunId(f"{job_id}-{run}")


def parse_run_id(text: str) -> tuple[JobId, int]:
    """The inverse of `run_id`. Raises ValueError."""
    job_id, _, run = text.rpartition("-")
    return JobId(job_id), int(run)


def is_job_id(text: str) -> bool:
    """Whether the text has the form of a job id with an existing partition."""
    if len(text) != JOB_ID_LENGTH or text.strip(ALPHABET):
        return False
    return partition_of_job(text) < JOB_PARTITIONS


NUMBER_EPOCH_MS: Final = 1_704_067_200_000
"""The start of 2024, before the first submission."""


def submission_number(time_ms: int, partition: int, position: int, index: int) -> int:
    """Order of submission over all partitions, as an int64: by log time, then place.

    Bits from the top: 39 of ticks of 4 ms since 2024, 9 of the position, 10 of the index in its
    message, 5 of the partition. So it is the same in every replay, no two jobs of a tick share one
    within 512 messages of a partition, and a large request, whose messages the log takes at one
    time, keeps its order (except where its positions cross a multiple of 512).
    """
    place = (position & 511) << 15 | (index & 1023) << 5 | (partition & 31)
    return (time_ms - NUMBER_EPOCH_MS >> 2) << 24 | place
