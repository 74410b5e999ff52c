"""More memory for a retry: in the shape that is scheduled and in the pod spec that runs."""

import msgspec
import pytest

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_scheduler.rules import lease_changes, run_ends
from fairlead_scheduler.state.jobs.job_table import NodeName
from tests.unit.scheduler.facts import fold, leased, submitted

GI = 2**30

CASES = {
    "the factor counts": (100, 1.5, 1000, 150),
    "no node has more": (100, 3.0, 200, 200),
    "never less than before": (100, 2.0, 50, 100),
    "without any node the factor counts": (100, 2.0, 0, 200),
    "a job without memory gets none": (0, 2.0, 1000, 0),
}


@pytest.mark.parametrize(("memory", "factor", "most", "want"), CASES.values(), ids=CASES.keys())
def test_more_memory(memory: int, factor: float, most: int, want: int) -> None:
    assert run_ends.increase_memory(memory, factor, most) == want


def spec_of(*amounts: dict[str, dict[str, object]]) -> msgspec.Raw:
    containers = [{"name": f"c{n}", "resources": each} for n, each in enumerate(amounts)]
    return msgspec.Raw(msgspec.json.encode({"containers": containers}))


def memory_of(spec: msgspec.Raw | bytes) -> list[dict[str, dict[str, object]]]:
    containers: list[dict[str, dict[str, dict[str, object]]]] = msgspec.json.decode(bytes(spec))[
        "containers"
    ]
    return [container["resources"] for container in containers]


def test_requests_and_limits_of_all_containers_grow_in_proportion() -> None:
    first: dict[str, dict[str, object]] = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"memory": "2Gi"},
    }
    second: dict[str, dict[str, object]] = {"requests": {"memory": "512Mi"}, "limits": {"cpu": "2"}}
    grown = quantities.scale_spec_memory(bytes(spec_of(first, second)), 3 * GI // 2, 9 * GI // 4)
    assert memory_of(grown) == [
        {"requests": {"cpu": "1", "memory": "1536Mi"}, "limits": {"memory": "3Gi"}},
        {"requests": {"memory": "768Mi"}, "limits": {"cpu": "2"}},
    ]


def test_a_lease_carries_the_services_and_ingresses_of_its_job() -> None:
    service = ev.NetworkObject(name="web", spec=msgspec.Raw(b'{"ports":[{"port":80}]}'))
    ingress = ev.NetworkObject(name="in", annotations={"a": "b"})
    job = msgspec.structs.replace(submitted("a"), services=(service,), ingresses=(ingress,))
    view = fold([job])
    row = view.jobs.rows[JobId("a")]
    record = lease_changes.new_lease(view, row, job, NodeName("e0", "n0"), ()).record
    lease = leases.decode(record.value or b"")
    assert (lease.services, lease.ingresses) == ((service,), (ingress,))


def test_the_lease_of_a_retry_carries_the_greater_request_and_limit() -> None:
    before = shapes.encode(shapes.Shape(requests={"cpu": 1000, "memory": GI}))
    after = shapes.encode(shapes.Shape(requests={"cpu": 1000, "memory": 2 * GI}))
    spec = spec_of({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}})
    job = submitted("a", shape=before, spec=spec)
    again = ev.JobRequeued(job_id=JobId("a"), reason="", counted=True, shape=after)
    failed = ev.JobRunFailed(
        job_id=JobId("a"), run=1, category=ev.FailureCategory.OOM, reason="oom"
    )
    view = fold([job], [leased("a")], [failed], [again])
    row = view.jobs.rows[JobId("a")]
    record = lease_changes.new_lease(view, row, job, NodeName("e0", "n0"), ()).record
    lease = leases.decode(record.value or b"")
    assert lease.requests["memory"] == 2 * GI
    assert memory_of(lease.spec) == [{"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}}]
