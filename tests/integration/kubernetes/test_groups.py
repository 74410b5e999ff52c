"""A group on a real API server, under the service account of deploy/kubernetes/rbac.yaml."""

import contextlib
import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import leases
from fairlead_common.domain.records.leases import GroupMembers, Lease, LeasedMember, LiveMember
from fairlead_common.log.protocol import Entry
from fairlead_common.service import clock
from fairlead_executor.domain.executor_state import ExecutorState
from fairlead_executor.domain.reconciliation import FULL_PASS_MS
from tests.integration.kubernetes.conftest import RealWorld
from tests.integration.kubernetes.test_permissions import apply_manifest, use_account
from tests.unit.executor.kubernetes.world import make_lease

pytestmark = pytest.mark.kubernetes

GROUP = GroupId("g".ljust(28, "0"))


def member(world: RealWorld, name: str, index: int) -> Lease:
    place = LeasedMember(group=GROUP, name="fit", role="worker", index=index, service=True)
    return make_lease(name, member=place, namespace=world.namespace)


def find(world: RealWorld, kind: str, name: str) -> dict[str, Any] | None:
    """An object of the namespace, if it exists. `Any`: JSON."""
    with contextlib.suppress(HTTPError):  # 404
        found: dict[str, Any] = world.plane.request("GET", f"{world.path}/{kind}/{name}")
        return found
    return None


async def test_a_group_has_its_file_and_host_names_until_it_has_ended(
    world: RealWorld, tmp_path: Path
) -> None:
    apply_manifest(world)
    use_account(world, tmp_path, "fairlead-executor")
    await world.open(ended_pods_max=0)
    state = ExecutorState("e", world.cluster, instance="i")
    state.take_over([], 0, None, ())
    later_ms = 0

    def turn() -> None:
        now_ms = clock.now_ms() + later_ms
        state.apply(state.plan(now_ms), now_ms)

    given = [member(world, "a", 0), member(world, "b", 1)]
    records = [leases.record("e", each) for each in given]
    entries = [Entry(0, n, each.key, each.value, 0) for n, each in enumerate(records)]
    state.fold_leases(entries, 2)
    turn()
    await world.until(lambda: len(state.cluster.pods) == 2)
    await world.until(lambda: all(pod.started_ms for pod in state.cluster.pods.values()))
    live = tuple(LiveMember("worker", n, JobState.RUNNING, "n0", f"10.0.0.{n}") for n in range(2))
    members = GroupMembers(group=GROUP, name="fit", members=live)
    record = leases.group_record("e", GROUP, members)
    state.fold_leases([Entry(0, 2, record.key, record.value, 0)], 3)
    turn()

    def addresses() -> list[str]:
        found = find(world, "configmaps", f"fairlead-group-{GROUP}")
        text = "{}" if found is None else found["data"]["members.json"]
        return [each["address"] for each in json.loads(text).get("members", ())]

    await world.until(lambda: addresses() == ["10.0.0.0", "10.0.0.1"])
    await world.until(lambda: find(world, "services", "fit") is not None)
    assert {(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in world.pods()} == {
        ("worker-0", "fit"),
        ("worker-1", "fit"),
    }
    assert JobId(given[0].job_id) in {
        pod["metadata"]["labels"]["fairlead.dev/job"] for pod in world.pods()
    }
    state.fold_leases([Entry(0, 3 + n, each.key, None, 0) for n, each in enumerate(records)], 5)
    later_ms = FULL_PASS_MS
    turn()
    await world.until(lambda: find(world, "services", "fit") is None)
    await world.until(lambda: find(world, "configmaps", f"fairlead-group-{GROUP}") is None)
