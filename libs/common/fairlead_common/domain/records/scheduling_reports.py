"""Reasons of waiting jobs, shares and rounds: the records of `fairlead.reports`.

The scheduler writes only reports that changed; a null value deletes one. Keys: `pool` (the last
round), `pool/queue` (its shares), `pool/queue/s/<shape key>`, `pool/queue/g/<job set>/<gang>` and
`pool/queue/t/<job set>/<group>` (how close its members are).
"""

from typing import Final

import msgspec

from fairlead_common.domain.records.value_ranges import Milliseconds, Name
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import REPORTS


class WaitingReport(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="waiting"
):
    """Why the queued jobs of one queue and (shape, class), or of one gang, did not start.

    `code`: of docs/rules.md, section 7. `sentence`: the reason with numbers. `nodes`: the number of
    nodes by the first condition that excludes them (their sum is that of the pool's nodes). `jobs`:
    how many wait.
    """

    pool: Name
    queue: Name
    code: str
    sentence: str
    shape: str = ""
    job_set: str = ""
    gang: str = ""
    jobs: int = 0
    nodes: dict[str, int] = {}


class QueueShare(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="queueShare"
):
    """A queue's shares in a pool after the last round that changed them, as fractions of the pool.

    `skipped`: jobs that wait, by reason code. `first_waiting` is the first of them in the queue's
    order, `first_position` its place there (0 is the head); "" and -1 when none waits.
    """

    pool: Name
    queue: Name
    weight: float
    weight_share: float = 0.0
    fair_share: float = 0.0
    uncapped_share: float = 0.0
    actual_share: float = 0.0
    demand_share: float = 0.0
    queued: int = 0
    running: int = 0
    scheduled: int = 0
    preempted: int = 0
    skipped: dict[str, int] = {}
    first_waiting: str = ""
    first_position: int = -1


class GroupNearness(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="nearness"
):
    """How close the members of a group with a topology are after the last round that changed it.

    `hops`: by role, the distance of its farthest members in hops (rule T1).
    """

    pool: Name
    queue: Name
    job_set: str
    group: str
    hops: dict[str, int]


class RoundReport(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="round"
):
    """One round of a pool: how long its steps took (ms), what it did, what stopped it.

    `outcome`: `finished`, `stopped` (by a limit, see `stopped_by`) or `failed` (see `error`).
    `topology`: the levels of the pool, widest first.
    """

    pool: Name
    at_ms: Milliseconds
    steps_ms: dict[str, float] = {}
    scheduled: int = 0
    preempted: int = 0
    waiting: int = 0
    nodes: int = 0
    outcome: str = "finished"
    stopped_by: str = ""
    error: str = ""
    topology: tuple[str, ...] = ()


Report = WaitingReport | QueueShare | GroupNearness | RoundReport

_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Report]] = msgspec.json.Decoder(Report)


def decode(value: bytes) -> Report:
    """The report of a record. Raises `msgspec.DecodeError`."""
    return _decoder.decode(value)


def key(report: Report) -> str:
    """The key of a report's record."""
    match report:
        case RoundReport(pool=pool):
            return pool
        case QueueShare(pool=pool, queue=queue):
            return f"{pool}/{queue}"
        case GroupNearness(pool=pool, queue=queue, job_set=job_set, group=group):
            return f"{pool}/{queue}/t/{job_set}/{group}"
        case WaitingReport(pool=pool, queue=queue, gang="", shape=shape):
            return f"{pool}/{queue}/s/{shape}"
        case WaitingReport(pool=pool, queue=queue, gang=gang, job_set=job_set):
            return f"{pool}/{queue}/g/{job_set}/{gang}"


def record(report: Report) -> Record:
    """The record of a report that is new or changed."""
    return Record(REPORTS, key(report), _encoder.encode(report))


def deletion_record(report_key: str) -> Record:
    """The record that deletes a report."""
    return Record(REPORTS, report_key, None)
