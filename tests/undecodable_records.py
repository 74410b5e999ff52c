"""Records that no service of ours has written: every kind of damage, for every topic."""

import hashlib
import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from fairlead_common.domain.ids import JobId, client_job_id, job_set_partition, run_id
from fairlead_common.domain.records import clusters, configuration, leases, scheduling_reports
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.records.scheduling_reports import QueueShare
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import Record, topics
from fairlead_common.log.topics import CLUSTERS, CONFIG, JOBS, REPORTS

EXECUTOR: Final = "damaged"
QUEUE, JOB_SET = "damaged", "set"
PARTITION: Final = job_set_partition(QUEUE, JOB_SET)
LEASES: Final = topics.leases(EXECUTOR).name
LONG: Final = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(80))
"""Too long for an index of Postgres, which compresses what repeats itself."""
_FIELDS: Final = {
    JOBS: "queue",
    LEASES: "queue",
    CLUSTERS: "executor",
    CONFIG: "name",
    REPORTS: "queue",
}
"""A text in the records of each topic."""
TOPICS: Final = (JOBS, LEASES, CLUSTERS, CONFIG, REPORTS)


class UndecodableRecord(NamedTuple):
    """One record that cannot be decoded. `key`: as in `Entry`."""

    kind: str
    topic: str
    partition: int
    key: str
    value: bytes | None

    @property
    def is_utf8(self) -> bool:
        """Whether every log could hold it."""
        return bool(self.key) and not any("\ud800" <= each <= "\udfff" for each in self.key)


def job_id(name: str) -> JobId:
    """The id of the job with this client id."""
    return client_job_id(PARTITION, QUEUE, JOB_SET, name)


def submitted(name: str) -> ev.JobSubmitted:
    """A job that asks for one core."""
    return ev.JobSubmitted(
        job_id=job_id(name),
        shape=shapes.encode(shapes.Shape(requests={"cpu": 1000})),
        spec=msgspec.Raw(b'{"containers":[{"name":"main","command":["true"]}]}'),
        digest="d",
    )


def good(topic: str, name: str) -> Record:
    """A record as our services write them."""
    if topic == JOBS:
        return ev.records(QUEUE, JOB_SET, "somebody", [submitted(name)])[0]
    if topic == LEASES:
        lease = Lease(job_id=job_id(name), run=1, queue=QUEUE, job_set=JOB_SET, node="n")
        return leases.record(EXECUTOR, lease)
    if topic == CLUSTERS:
        node = Node(executor=EXECUTOR, name=name, allocatable={"cpu": 1000})
        return clusters.node_record(node)
    if topic == CONFIG:
        return configuration.record(Queue(name=name))
    return scheduling_reports.record(QueueShare(pool="default", queue=name, weight=1.0))


def make_records(topic: str) -> Iterator[UndecodableRecord]:
    """Every kind for this topic; none of them holds an event of an unknown type."""
    partition = PARTITION if topic == JOBS else 0
    record = good(topic, "victim")
    key, value = record.key, record.value
    assert value is not None

    def damaged(kind: str, data: bytes | None, under: str = key) -> UndecodableRecord:
        return UndecodableRecord(kind, topic, partition, under, data)

    yield damaged("garbage bytes", b"\x00\xff\xfe garbage")
    yield damaged("an empty value", b"")
    yield damaged("JSON cut off", value[: len(value) // 2])
    yield damaged("a JSON array", b"[1, 2]")
    yield damaged("JSON of another shape", b'{"something": "else"}')
    yield damaged("a field of another type", _changed(value, _FIELDS[topic], 7))
    if topic != LEASES:  # no table holds a lease
        yield damaged("a name that is too long", _changed(value, _FIELDS[topic], LONG))
    yield damaged("deep nesting", b'{"x":' * 5_000 + b"1" + b"}" * 5_000)
    yield damaged("text that is not UTF-8", value[:-1] + b',"more":"\xff"}')
    yield damaged("a NUL in a text", value[:-1] + b',"more":"a\\u0000b"}')
    yield damaged("a key that is not UTF-8", value, "\udcff\udcfe")
    yield damaged("no key", value, "")
    if topic == JOBS:
        yield damaged("no value", None)
        yield from _damaged_jobs(partition, key)
        return
    yield damaged("a record of an unknown kind", b'{"type":"somethingNew","name":"x"}')
    yield damaged("the key of another record", value, f"{key}-another")
    if topic == LEASES:
        yield damaged("a key that is not a run id", value, "not-a-run")
        yield damaged("a key without a number", None, f"{job_id('victim')}-x")
        yield damaged("a run id that is not one", _changed(value, "after", ["x"]))
        yield damaged("a number out of range", _changed(value, "run", 2**70))
    if topic == CLUSTERS:
        yield damaged("a name that no topic can have", value, "no such/executor name")
        yield damaged("a number out of range", _changed(value, "allocatable", {"cpu": 2**70}))


def _damaged_jobs(partition: int, key: str) -> Iterator[UndecodableRecord]:
    event = json.loads(msgspec.json.encode(submitted("victim")))

    def damaged(kind: str, **fields: object) -> UndecodableRecord:
        sequence = {"queue": QUEUE, "jobSet": JOB_SET, "by": "x", "events": [{**event, **fields}]}
        return UndecodableRecord(kind, JOBS, partition, key, json.dumps(sequence).encode())

    yield damaged("an event without a type", type=None)
    yield damaged("a job id that is not one", jobId="x")
    yield damaged("a job id of no partition", jobId="z" * 28)
    yield damaged("a shape that is not one", shape={"requests": ["cpu"]})
    yield damaged("a spec that is not an object", spec=[])
    yield damaged("a pool with too long a name", pool=LONG)
    yield damaged("a resource with too long a name", shape={"requests": {LONG: 1}})
    yield damaged("a priority out of range", priority=2**70)
    yield damaged("a time out of range", queueSMax=2**62)
    yield damaged("a run of no number", type="jobRunSucceeded", run=0)
    yield damaged("a dependency that is not a job id", after=["x"])
    yield damaged("a word that is not known", type="jobFailed", category="bored", reason="")


def unknown_event(tag: str, *others: ev.AnyEvent, name: str = "victim") -> UndecodableRecord:
    """A record of `fairlead.jobs` with an event of this type, and others after it."""
    rest = [json.loads(msgspec.json.encode(event)) for event in others]
    events = [{"type": tag, "jobId": job_id(name), "colour": "red"}, *rest]
    value = json.dumps({"queue": QUEUE, "jobSet": JOB_SET, "by": "x", "events": events})
    return UndecodableRecord(tag, JOBS, PARTITION, f"{QUEUE}/{JOB_SET}", value.encode())


def a_run(name: str) -> str:
    """The run of the lease of this name."""
    return run_id(job_id(name), 1)


def _changed(value: bytes, field: str, to: object) -> bytes:
    return json.dumps({**json.loads(value), field: to}).encode()
