"""What the executor relies on, whatever cluster it has (`domain/cluster_protocol.py`)."""

import asyncio

import msgspec
import pytest

from fairlead_common.domain.records import leases as lease_records
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import FailureCategory, NetworkObject
from fairlead_common.log.protocol import Entry
from fairlead_common.service import clock
from fairlead_executor.domain import pods
from fairlead_executor.domain.executor_state import ExecutorState
from fairlead_executor.domain.pods import SUCCEEDED, EndKind, Phase, Pod
from fairlead_executor.domain.run_logs import LogRequest, NoLog
from fairlead_executor.domain.start_failures import StartFailures
from tests.contract.cluster.beds import (
    FAILS,
    LASTS,
    RETURNED,
    STUBBORN,
    SUCCEEDS,
    WAIT_S_MAX,
    Bed,
    run_of,
    until,
)


def ended(pod: Pod) -> bool:
    return pod.phase is Phase.ENDED


def runs(pod: Pod) -> bool:
    return pod.phase is Phase.RUNNING


def create(bed: Bed, name: str, does: str) -> None:
    bed.cluster.create([bed.lease(name, does)], clock.now_ms())


async def test_a_run_has_a_pod_as_soon_as_it_is_created(bed: Bed) -> None:
    create(bed, "a", LASTS)
    assert bed.cluster.pods[run_of("a")].phase in (Phase.CREATED, Phase.RUNNING)


async def test_a_run_goes_from_created_to_running_to_its_end(bed: Bed) -> None:
    create(bed, "a", SUCCEEDS)
    pod = await until(bed.cluster, "a", ended)
    assert pod.end == SUCCEEDED
    assert 0 < pod.started_ms <= pod.ended_ms


async def test_services_exist_or_the_run_fails_with_what_to_do(bed: Bed) -> None:
    service = NetworkObject(name="web", spec=msgspec.Raw(b'{"ports": [{"port": 80}]}'))
    lease = msgspec.structs.replace(bed.lease("a", SUCCEEDS), services=(service,))
    bed.cluster.create([lease], clock.now_ms())
    pod = await until(bed.cluster, "a", ended)
    if bed.cluster.backend == "kubernetes":
        assert pod.end == SUCCEEDED
    else:
        assert pod.end == pods.failed(FailureCategory.ADMISSION, pods.NO_SERVICES)
        assert not pod.started_ms


async def test_an_exit_code_is_reported(bed: Bed) -> None:
    create(bed, "a", FAILS)
    pod = await until(bed.cluster, "a", ended)
    assert pod.end == pods.failed(
        FailureCategory.EXIT_CODE, "the command ended with exit code 3", 3
    )


async def test_changes_name_each_run_whose_pod_changed_and_then_no_more(bed: Bed) -> None:
    bed.cluster.changes(clock.now_ms())
    create(bed, "a", LASTS)
    assert run_of("a") in bed.cluster.changes(clock.now_ms())
    await until(bed.cluster, "a", runs)
    assert not bed.cluster.changes(clock.now_ms())


async def test_a_run_that_has_a_pod_is_not_started_again(bed: Bed) -> None:
    create(bed, "a", SUCCEEDS)
    first = await until(bed.cluster, "a", ended)
    create(bed, "a", LASTS)
    bed.cluster.changes(clock.now_ms())
    assert bed.cluster.pods[run_of("a")] == first


async def test_a_run_that_is_stopped_ends_as_the_stop_says(bed: Bed) -> None:
    create(bed, "a", LASTS)
    await until(bed.cluster, "a", runs)
    bed.cluster.stop(run_of("a"), 20, pods.stopped("preempted"))
    pod = await until(bed.cluster, "a", ended)
    assert pod.end is not None
    assert (pod.end.kind, pod.end.reason) == (EndKind.STOPPED, "preempted")


async def test_a_run_that_ignores_its_stop_ends_with_its_grace(bed: Bed) -> None:
    create(bed, "a", STUBBORN)
    await until(bed.cluster, "a", runs)
    deadline = pods.failed(FailureCategory.DEADLINE, "too long")
    bed.cluster.stop(run_of("a"), 1, deadline)
    pod = await until(bed.cluster, "a", ended)
    assert pod.end is not None
    assert (pod.end.kind, pod.end.category) == (EndKind.FAILED, FailureCategory.DEADLINE)


async def test_a_second_stop_can_shorten_the_grace_and_nothing_else(bed: Bed) -> None:
    create(bed, "a", STUBBORN)
    await until(bed.cluster, "a", runs)
    bed.cluster.stop(run_of("a"), 600, pods.stopped("first"))
    bed.cluster.stop(run_of("a"), 0, pods.stopped("second"))
    pod = await until(bed.cluster, "a", ended)
    assert pod.end is not None
    assert pod.end.reason == "first"


async def test_a_run_that_is_stopping_says_so(bed: Bed) -> None:
    create(bed, "a", STUBBORN)
    await until(bed.cluster, "a", runs)
    bed.cluster.stop(run_of("a"), 20, pods.stopped("x"))
    pod = await until(bed.cluster, "a", lambda pod: pod.stopping)
    assert pod.live


async def test_a_run_can_be_stopped_before_it_has_started(bed: Bed) -> None:
    create(bed, "a", LASTS)
    bed.cluster.stop(run_of("a"), 0, pods.stopped("at once"))
    pod = await until(bed.cluster, "a", ended)
    assert pod.end is not None
    assert pod.end.kind is EndKind.STOPPED


async def test_stopping_what_has_ended_changes_nothing(bed: Bed) -> None:
    create(bed, "a", SUCCEEDS)
    before = await until(bed.cluster, "a", ended)
    bed.cluster.stop(run_of("a"), 0, pods.stopped("too late"))
    bed.cluster.changes(clock.now_ms())
    assert bed.cluster.pods[run_of("a")] == before


async def test_stopping_what_was_never_there_makes_nothing(bed: Bed) -> None:
    bed.cluster.stop(run_of("a"), 0, pods.stopped("who?"))
    assert run_of("a") not in bed.cluster.pods


async def test_a_run_that_is_prevented_never_starts(bed: Bed) -> None:
    end = pods.lost("the executor was restarted")
    bed.cluster.prevent_start(run_of("a"), end, clock.now_ms(), bed.namespace)
    create(bed, "a", SUCCEEDS)
    pod = await until(bed.cluster, "a", ended)
    assert (pod.end, pod.started_ms) == (end, 0)


async def test_ruling_out_a_run_that_is_there_changes_nothing(bed: Bed) -> None:
    create(bed, "a", LASTS)
    await until(bed.cluster, "a", runs)
    bed.cluster.prevent_start(run_of("a"), pods.lost("x"), clock.now_ms(), bed.namespace)
    bed.cluster.changes(clock.now_ms())
    assert bed.cluster.pods[run_of("a")].live


async def test_a_pod_that_ended_stays_until_it_is_removed(bed: Bed) -> None:
    create(bed, "a", SUCCEEDS)
    await until(bed.cluster, "a", ended)
    bed.cluster.remove([run_of("a")])
    bed.cluster.changes(clock.now_ms())
    assert run_of("a") not in bed.cluster.pods


async def test_a_pod_that_lives_cannot_be_removed(bed: Bed) -> None:
    create(bed, "a", LASTS)
    await until(bed.cluster, "a", runs)
    bed.cluster.remove([run_of("a")])
    assert bed.cluster.pods[run_of("a")].live


async def test_hundred_runs_at_once_all_end(bed: Bed) -> None:
    names = [f"a{number:02}b" for number in range(100)]
    bed.cluster.create([bed.lease(name, SUCCEEDS) for name in names], clock.now_ms())
    for name in names:
        pod = await until(bed.cluster, name, ended)
        assert pod.end == SUCCEEDED


async def test_nodes_are_the_same_list_while_nothing_changes(bed: Bed) -> None:
    nodes = bed.cluster.nodes()
    assert nodes
    assert bed.cluster.nodes() is nodes


async def test_the_log_of_an_unknown_run_is_refused_with_a_reason(bed: Bed) -> None:
    with pytest.raises(NoLog, match="started here"):
        await anext(bed.cluster.logs(run_of("a"), LogRequest()))


async def test_a_followed_log_ends_with_its_run(lasting_bed: Bed) -> None:
    cluster = lasting_bed.cluster
    create(lasting_bed, "a", LASTS)
    await until(cluster, "a", runs)

    async def follow() -> None:
        async for _ in cluster.logs(run_of("a"), LogRequest(follow=True)):
            pass

    following = asyncio.create_task(follow())
    cluster.stop(run_of("a"), 1, pods.stopped("enough"))
    await until(cluster, "a", ended)
    async with asyncio.timeout(WAIT_S_MAX):
        await following


async def test_a_node_that_returns_runs_is_named_and_avoided(returning_bed: Bed) -> None:
    cluster = returning_bed.cluster
    leases = [returning_bed.lease(name, RETURNED) for name in ("a", "b", "c")]
    state = ExecutorState("e", cluster, start_failures=StartFailures(3, 60))
    entries = [
        Entry(0, position, record.key, record.value, 0)
        for position, record in enumerate(lease_records.record("e", lease) for lease in leases)
    ]
    state.take_over(entries, 3, None, cluster.nodes())
    reported: dict[str, Node | None] = {}
    async with asyncio.timeout(WAIT_S_MAX):
        while not reported:
            plan = state.plan(clock.now_ms())
            state.apply(plan, clock.now_ms())
            reported |= plan.nodes
            if plan.empty:
                await cluster.changed()
    (node,) = reported.values()
    assert node is not None
    assert node.name == leases[0].node
    assert node.unschedulable
    assert node.avoided is not None
    assert node.avoided.failures == 3
    assert cluster.pods[run_of("c")].node == node.name


# Of clusters that outlive their executor.


async def test_runs_go_on_while_the_executor_is_away(lasting_bed: Bed) -> None:
    create(lasting_bed, "a", LASTS)
    before = await until(lasting_bed.cluster, "a", runs)
    await lasting_bed.open()
    assert lasting_bed.cluster.pods[run_of("a")] == before


async def test_a_new_executor_sees_how_runs_ended(lasting_bed: Bed) -> None:
    create(lasting_bed, "a", FAILS)
    before = await until(lasting_bed.cluster, "a", ended)
    await lasting_bed.open()
    assert run_of("a") in lasting_bed.cluster.changes(clock.now_ms())
    assert lasting_bed.cluster.pods[run_of("a")] == before


async def test_a_new_executor_does_not_start_a_run_again(lasting_bed: Bed) -> None:
    create(lasting_bed, "a", SUCCEEDS)
    before = await until(lasting_bed.cluster, "a", ended)
    await lasting_bed.open()
    create(lasting_bed, "a", LASTS)
    lasting_bed.cluster.changes(clock.now_ms())
    assert lasting_bed.cluster.pods[run_of("a")] == before


async def test_a_new_executor_can_stop_what_an_earlier_one_started(lasting_bed: Bed) -> None:
    create(lasting_bed, "a", LASTS)
    await until(lasting_bed.cluster, "a", runs)
    await lasting_bed.open()
    lasting_bed.cluster.stop(run_of("a"), 20, pods.stopped("enough"))
    pod = await until(lasting_bed.cluster, "a", ended)
    assert pod.end is not None
    assert pod.end.reason == "enough"


async def test_a_run_that_was_prevented_stays_so(lasting_bed: Bed) -> None:
    end = pods.lost("x")
    lasting_bed.cluster.prevent_start(run_of("a"), end, clock.now_ms(), lasting_bed.namespace)
    await until(lasting_bed.cluster, "a", ended)
    await lasting_bed.open()
    assert lasting_bed.cluster.pods[run_of("a")].end == end
