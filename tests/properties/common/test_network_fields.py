"""Records from before and after `services` and `ingresses` are read by each other's readers."""

import string

import hypothesis
import hypothesis.strategies as st
import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events, leases
from fairlead_common.domain.records.events import JobSubmitted, NetworkObject
from fairlead_common.domain.records.leases import Lease

NEW = ("services", "ingresses")
texts = st.text(string.printable, max_size=20)
maps = st.dictionaries(texts, texts, max_size=3)
specs = st.dictionaries(texts, st.one_of(texts, st.integers(0, 9), st.lists(maps)), max_size=3)
objects = st.builds(
    NetworkObject,
    name=texts,
    annotations=maps,
    spec=specs.map(lambda spec: msgspec.Raw(msgspec.json.encode(spec))),
)
several = st.lists(objects, max_size=3).map(tuple)
jobs = st.builds(
    JobSubmitted,
    job_id=texts.map(JobId),
    shape=st.just(msgspec.Raw(b"{}")),
    spec=specs.map(lambda spec: msgspec.Raw(msgspec.json.encode(spec))),
    digest=texts,
    namespace=texts,
    labels=maps,
    services=several,
    ingresses=several,
)


def without_new(line: bytes) -> bytes:
    """The record as a writer from before the fields wrote it."""
    decoded = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({k: v for k, v in decoded.items() if k not in NEW})


@hypothesis.given(jobs)
def test_submitted_jobs_of_both_times_are_read(job: JobSubmitted) -> None:
    line = msgspec.json.encode(job)
    assert msgspec.json.decode(line, type=events.AnyEvent) == job
    old = msgspec.json.decode(without_new(line), type=events.AnyEvent)
    assert old == msgspec.structs.replace(job, services=(), ingresses=())
    assert msgspec.json.encode(old) == without_new(line)


@hypothesis.given(several, several, maps)
def test_leases_of_both_times_are_read(
    services: tuple[NetworkObject, ...], ingresses: tuple[NetworkObject, ...], env: dict[str, str]
) -> None:
    lease = Lease(
        job_id=JobId("a" * 28),
        run=1,
        queue="q",
        job_set="s",
        node="n",
        env=env,
        services=services,
        ingresses=ingresses,
    )
    line = leases.record("e", lease).value
    assert line is not None
    assert msgspec.json.encode(leases.decode(line)) == line
    old = leases.decode(without_new(line))
    assert (old.services, old.ingresses, old.env) == ((), (), env)
    assert msgspec.json.encode(old) == without_new(line)
