"""The Kubernetes backend when the API server refuses, forgets, cuts and loses; and what it leaves.

What it does when all goes well is in tests/contract/cluster.
"""

import asyncio
import base64
import random

import pytest
from prometheus_client import REGISTRY

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.secret_values import Keyring
from fairlead_common.service import clock
from fairlead_executor.backends.kubernetes.api_client import ApiClient
from fairlead_executor.backends.kubernetes.api_probe import ApiProbe
from fairlead_executor.backends.kubernetes.domain.pod_manifest import FINALIZER
from fairlead_executor.backends.kubernetes.settings import (
    KubernetesSettings,
    PendingAction,
    PendingRule,
)
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import SUCCEEDED, EndKind, Phase, Pod
from fairlead_executor.domain.reconciliation import (
    Create,
    DesiredRun,
    PendingReported,
    reconcile,
)
from tests.fake_api_server import is_held
from tests.unit.executor.kubernetes.conftest import FakeWorld
from tests.unit.executor.kubernetes.world import (
    claim_object,
    class_object,
    make_lease,
    slice_object,
)

SUCCEEDS = {"run-for": "10ms"}
END = pods.stopped("preempted")
NEVER_S = 10**8


def skipped_pods() -> float:
    name = "fairlead_executor_objects_skipped_total"
    return REGISTRY.get_sample_value(name, {"kind": "pods"}) or 0.0


def runs(pod: Pod) -> bool:
    return pod.phase is Phase.RUNNING


async def test_an_executor_that_starts_waits_for_a_busy_api_server(world: FakeWorld) -> None:
    world.server.list_refusals = [503, 429]
    await world.open()
    assert len(world.cluster.nodes()) == 3


async def test_an_executor_that_starts_without_rights_ends(world: FakeWorld) -> None:
    world.server.list_refusals = [403]
    with pytest.raises(WorldError, match=r"apply deploy/kubernetes/rbac\.yaml"):
        await world.open()


async def test_a_watch_that_is_cut_goes_on_without_listing_again(world: FakeWorld) -> None:
    await world.open()
    run = world.create()
    await world.until_pod(run, runs)
    lists = world.server.requests["GET", "pods"]
    world.server.cut_watches()
    world.cluster.stop(run, 20, END)
    assert (await world.until_ended(run)).end == END
    watches = world.server.requests["GET", "pods"] - lists
    assert watches >= 1
    assert world.cluster.pod_lists == 1


async def test_a_server_that_accepts_requests_and_does_not_answer_is_a_problem(
    world: FakeWorld,
) -> None:
    await world.open()
    settings = KubernetesSettings(kubeconfig=str(world.kubeconfig))
    client = await ApiClient.open(settings, clock.monotonic_s)
    probe = ApiProbe(client, period_s=0.01, answer_s_max=0.1)
    work = asyncio.create_task(probe.run())
    world.server.frozen = True
    await world.until(lambda: probe.problem is not None)
    assert probe.problem == "it did not answer within 0.1 s"
    world.server.unfreeze()
    await world.until(lambda: probe.problem is None)
    work.cancel()
    await client.close()


async def test_what_was_missed_while_versions_expired_is_found_by_listing(world: FakeWorld) -> None:
    await world.open()
    gone, left = world.create("a"), world.create("b")
    for run in (gone, left):
        await world.until_pod(run, runs)
    world.server.delete("pods", gone, "default")
    world.server.forget_versions()
    await world.until(lambda: world.cluster.pod_lists == 2)
    end = (await world.until_ended(gone)).end
    assert end is not None
    assert end.category is FailureCategory.POD_DELETED
    assert world.cluster.pods[left].phase is Phase.RUNNING


UNDECODABLE = {"spec": {"priority": "high", "containers": []}, "status": {"phase": "Running"}}


async def test_an_object_that_cannot_be_decoded_does_not_hold_up_the_others(
    world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {**UNDECODABLE, "metadata": {"name": "bad", "namespace": "team"}}
    world.server.put("pods", bad)
    before = skipped_pods()
    await world.open()
    for name in ("a", "b"):
        world.server.put("pods", bad)
        await world.until_ended(world.create(name, annotations=SUCCEEDS))
    world.server.put("pods", bad)
    world.server.forget_versions()
    await world.until(lambda: world.cluster.pod_lists == 2)
    named = [record for record in caplog.records if "team/bad" in record.getMessage()]
    assert len(named) == 1
    assert skipped_pods() - before == 4  # two lists, two events


async def test_a_run_whose_pod_cannot_be_decoded_any_more_stays_until_its_pod_is_gone(
    world: FakeWorld,
) -> None:
    await world.open()
    run = world.create()
    await world.until_pod(run, runs)
    pod = world.server.find("pods", run)
    assert pod is not None
    world.server.put("pods", {**pod, **UNDECODABLE})
    world.server.forget_versions()
    await world.until(lambda: world.cluster.pod_lists == 2)
    assert world.cluster.pods[run].phase is Phase.RUNNING
    world.server.delete("pods", run, "default")
    end = (await world.until_ended(run)).end
    assert end is not None
    assert end.category is FailureCategory.POD_DELETED


async def test_a_pod_whose_creation_was_not_answered_is_not_created_twice(world: FakeWorld) -> None:
    await world.open()
    world.server.answers_lost = 1
    run = world.create(annotations=SUCCEEDS)
    assert (await world.until_ended(run)).end == SUCCEEDED
    assert len(world.server.pods()) == 1


@pytest.mark.parametrize("code", [403, 422])
async def test_a_pod_that_exists_is_not_refused_when_its_creation_is_repeated(
    world: FakeWorld, code: int
) -> None:
    """It can be the pod itself that has used up the quota."""
    await world.open()
    world.server.silent = True
    world.server.answers_lost, world.server.refusals = 1, [0, code]
    run = world.create(annotations=SUCCEEDS)
    await world.until_pod(run, lambda pod: pod.node == "n0" and not world.server.refusals)
    world.server.silent = False
    world.server.cut_watches()
    assert (await world.until_ended(run)).end == SUCCEEDED


@pytest.mark.parametrize("seed", range(5))
async def test_every_run_ends_once_and_nothing_is_left_whatever_is_refused(
    world: FakeWorld, seed: int
) -> None:
    chance = random.Random(seed)
    codes = [409, 429, 500, 503]
    await world.open(ended_pods_max=0)
    ended = list[RunId]()
    created = []
    for number in range(30):
        world.server.refusals = chance.choices(codes, k=chance.randrange(4))
        world.server.answers_lost = chance.randrange(2)
        does = chance.choice([SUCCEEDS, {"run-for": "10ms", "exit-code": "3"}, {}])
        run = world.create(f"a{number:02}b", annotations=does)
        created.append(run)
        if not does:
            world.cluster.stop(run, 1, END)
        if chance.random() < 0.3:
            chance.choice([world.server.cut_watches, world.server.forget_versions])()
        await world.until_pod(run, lambda _: True)
    for run in created:
        await world.until_ended(run)
        ended.append(run)
        world.cluster.remove([run])
    await world.until(lambda: not world.server.pods())
    assert not world.cluster.pods
    assert len(set(ended)) == 30


async def test_a_new_executor_removes_what_an_earlier_one_had_not_released(
    world: FakeWorld,
) -> None:
    await world.open()
    run = world.create(annotations=SUCCEEDS)
    await world.until_ended(run)
    world.cluster.remove([run])
    assert world.server.pods()
    await world.open(ended_pods_max=0)
    assert run in world.cluster.changes(clock.now_ms())
    world.cluster.remove([run])
    await world.until(lambda: not world.server.pods())


async def test_ended_pods_are_retained_for_their_logs_up_to_a_number(world: FakeWorld) -> None:
    await world.open(ended_pods_max=1)
    first, second = world.create("a", annotations=SUCCEEDS), world.create("b", annotations=SUCCEEDS)
    for run in (first, second):
        await world.until_ended(run)
        world.cluster.remove([run])
        assert run not in world.cluster.pods
    await world.until(lambda: len(world.server.pods()) == 1)
    assert world.server.find("pods", second) is not None
    assert await world.read_log(second) == b"main\nsecond\n"


async def test_a_run_without_a_pod_is_prevented_by_a_pod_of_its_name(world: FakeWorld) -> None:
    await world.open()
    run = RunId(f"{'a'.ljust(28, '0')}-1")
    world.cluster.prevent_start(run, pods.lost("restarted"), clock.now_ms(), "default")
    await world.until_ended(run)
    pod = world.server.find("pods", run)
    assert pod is not None
    assert pod["spec"]["schedulingGates"]
    world.cluster.remove([run])
    await world.until(lambda: not world.server.pods())


async def test_a_pod_spec_that_is_refused_fails_with_the_servers_words(world: FakeWorld) -> None:
    await world.open()
    bad = world.create("a", spec={"containers": [{"name": "main"}]})
    good = world.create("b", annotations=SUCCEEDS)
    end = (await world.until_ended(bad)).end
    assert end is not None
    assert end.category is FailureCategory.ADMISSION
    assert "spec.containers[0].image: Required value" in end.reason
    assert (await world.until_ended(good)).end == SUCCEEDED


async def test_a_namespace_is_required_or_created_as_settings_say(world: FakeWorld) -> None:
    await world.open()
    end = (await world.until_ended(world.create(namespace="team"))).end
    assert end is not None
    assert (end.category, "namespace team" in end.reason) == (FailureCategory.ADMISSION, True)
    await world.open(namespaces="create")
    run = world.create("b", namespace="team", annotations=SUCCEEDS)
    assert (await world.until_ended(run)).end == SUCCEEDED


async def test_a_node_that_does_not_exist_returns_the_run(world: FakeWorld) -> None:
    await world.open()
    end = (await world.until_ended(world.create(node="n9"))).end
    assert end is not None
    assert (end.kind, "n9" in end.reason) == (EndKind.RETURNED, True)


async def test_a_pod_that_cannot_start_ends_by_its_rule(world: FakeWorld) -> None:
    rule = PendingRule(
        reasons=("ImagePullBackOff",),
        action=PendingAction.FAIL,
        category=FailureCategory.IMAGE_PULL,
    )
    await world.open(pending_rules=(rule,))
    run = world.create(annotations={"waiting": "ImagePullBackOff"})
    end = (await world.until_ended(run)).end
    assert end is not None
    assert end.category is FailureCategory.IMAGE_PULL
    assert "a test says so" in end.reason


async def test_the_runs_of_a_node_that_is_gone_are_given_up(world: FakeWorld) -> None:
    await world.open(node_lost_s=1)
    run = world.create(node="n1")
    await world.until_pod(run, runs)
    world.server.delete("nodes", "n1")
    end = (await world.until_ended(run)).end
    assert end is not None
    assert (end.category, "n1" in end.reason) == (FailureCategory.NODE_LOST, True)
    assert "n1" not in {node.name for node in world.cluster.nodes()}


async def test_a_pod_deleted_by_hand_is_noticed_and_held_until_that_is_reported(
    world: FakeWorld,
) -> None:
    await world.open(ended_pods_max=0)
    run = world.create()
    await world.until_pod(run, runs)
    pod = world.server.find("pods", run)
    assert pod is not None
    world.server.delete_gracefully(pod)
    end = (await world.until_ended(run)).end
    assert end is not None
    assert end.category is FailureCategory.POD_DELETED
    (held,) = world.server.pods()
    assert is_held(held)
    world.cluster.remove([run])
    await world.until(lambda: not world.server.pods())


@pytest.mark.parametrize(
    ("finalizers", "interrupted"),
    [
        pytest.param([FINALIZER], 0, id="a deletion of two requests, one write each"),
        pytest.param([], 1, id="somebody removed the finalizer: one request, two writes"),
    ],
)
async def test_a_deletion_that_a_failure_interrupts_is_completed(
    world: FakeWorld, finalizers: list[str], interrupted: int
) -> None:
    await world.open(ended_pods_max=0)
    run = world.create()
    await world.until_pod(run, runs)
    pod = world.server.find("pods", run)
    assert pod is not None
    pod["metadata"]["finalizers"] = finalizers
    pod["status"]["phase"] = "Failed"
    world.server.put("pods", pod)
    await world.until_ended(run)
    requests = world.server.requests.copy()
    world.server.deletions_interrupted = 1
    world.cluster.remove([run])
    await world.until(lambda: not world.server.pods())
    assert world.server.deletions_interrupted == 1 - interrupted
    sent = world.server.requests - requests
    assert (sent["DELETE", "pods"], sent["PATCH", "pods"]) == (1 + interrupted, 1 - interrupted)


@pytest.mark.parametrize(
    ("grace_s", "finalizers", "stuck_terminating_s"),
    [
        pytest.param(30, [FINALIZER], 60, id="its node died before it confirmed the deletion"),
        pytest.param(0, [], NEVER_S, id="a kill between the two writes of the deletion"),
    ],
)
async def test_an_ended_pod_whose_deletion_nobody_completes_is_deleted_again(
    world: FakeWorld, grace_s: int, finalizers: list[str], stuck_terminating_s: int
) -> None:
    await world.open(ended_pods_max=0, stuck_terminating_s=stuck_terminating_s)
    run = world.create()
    await world.until_pod(run, runs)
    pod = world.server.find("pods", run)
    assert pod is not None
    pod["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": grace_s,
        "finalizers": finalizers,
    }
    pod["status"]["phase"] = "Failed"
    world.server.put("pods", pod)
    await world.until_ended(run)
    world.cluster.remove([run])
    await world.until(lambda: not world.server.pods())


async def test_a_new_executor_completes_the_secret_of_a_pod_that_the_former_one_created(
    world: FakeWorld,
) -> None:
    await world.open(secrets_key="a key")
    world.server.refusal_code, world.server.refused_kinds["secrets"] = 500, "a test says so"
    sealed = Keyring("a key").seal("q", "hunter2")
    container = {"name": "main", "image": "x", "env": [{"name": "P", "sealed": sealed}]}
    run = world.create(spec={"containers": [container]})
    await world.until(lambda: world.server.requests["POST", "secrets"] > 0)
    await world.open(secrets_key="a key")
    world.server.refused_kinds.clear()
    assert world.server.find("secrets", run) is None
    pod = world.cluster.pods[run]
    lease = make_lease(spec={"containers": [container]})
    wanted = DesiredRun(lease, 0, PendingReported.BEFORE, running_reported=True)
    assert reconcile({run: wanted}, {run: pod}, 0).creates == [Create(run, lease, wanted)]
    world.cluster.create([lease], 0)
    await world.until(lambda: world.server.find("secrets", run) is not None)
    assert world.server.requests["POST", "pods"] == 1


async def test_secret_values_are_sent_to_the_cluster_as_a_secret_of_the_pod(
    world: FakeWorld,
) -> None:
    await world.open(secrets_key="a key")
    sealed = Keyring("a key").seal("q", "hunter2")
    container = {"name": "main", "image": "x", "env": [{"name": "P", "sealed": sealed}]}
    run = world.create(spec={"containers": [container]})
    await world.until(lambda: world.server.find("secrets", run) is not None)
    secret, pod = world.server.find("secrets", run), world.server.find("pods", run)
    assert secret is not None
    assert pod is not None
    assert base64.b64decode(secret["data"]["v0"]) == b"hunter2"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    assert "hunter2" not in str(pod)


async def test_pods_of_another_installation_are_left_alone_and_counted(world: FakeWorld) -> None:
    await world.open()
    amounts = {"requests": {"cpu": "2"}}
    run = world.create(spec={"containers": [{"name": "main", "image": "x", "resources": amounts}]})
    await world.until_pod(run, runs)
    assert {node.allocatable["cpu"] for node in world.cluster.nodes()} == {8000}
    await world.open(log_id="another log")
    assert not world.cluster.pods
    offered = {node.name: node.allocatable["cpu"] for node in world.cluster.nodes()}
    assert offered == {"n0": 6000, "n1": 8000, "n2": 8000}


async def test_a_watch_continues_after_bookmarks(world: FakeWorld) -> None:
    await world.open()
    run = world.create(annotations={"run-for": "10ms"})
    await world.until_ended(run)
    assert world.server.requests["GET", "pods"] == 2  # the list, and one watch


async def test_a_list_of_several_pages_is_read_to_its_end(world: FakeWorld) -> None:
    for number in range(1_203):
        world.server.put(
            "pods",
            {
                "metadata": {"name": f"other-{number}", "namespace": "default"},
                "spec": {
                    "nodeName": "n0",
                    "containers": [{"name": "x", "resources": {"requests": {"cpu": "1m"}}}],
                },
                "status": {"phase": "Running"},
            },
        )
    await world.open()
    assert {node.name: node.allocatable["cpu"] for node in world.cluster.nodes()}["n0"] == 6797


async def test_a_kubeconfig_that_does_not_exist_is_named(world: FakeWorld) -> None:
    world.kubeconfig = world.kubeconfig.with_name("missing.yaml")
    with pytest.raises(WorldError, match=r"missing\.yaml does not exist"):
        await world.open()


async def test_credentials_that_are_refused_are_named_with_what_to_do(world: FakeWorld) -> None:
    world.server.token = "another"
    with pytest.raises(WorldError, match="renew the credentials"):
        await world.open()


async def test_devices_are_followed_and_change_what_nodes_offer(world: FakeWorld) -> None:
    def offered() -> dict[str, int]:
        return {
            node.name: node.allocatable.get("example.com/gpu", 0) for node in world.cluster.nodes()
        }

    world.server.put("deviceclasses", class_object("gpu"))
    world.server.put("resourceslices", slice_object("n0", 4))
    await world.open(device_resources={"gpu": "example.com/gpu"})
    assert offered() == {"n0": 4, "n1": 0, "n2": 0}
    world.server.put("resourceslices", slice_object("n1", 2))
    world.server.put("resourceclaims", claim_object("d0", pod="theirs"))
    await world.until(lambda: offered() == {"n0": 3, "n1": 2, "n2": 0})
    run = world.create()
    world.server.put("resourceclaims", claim_object("d1", pod=run, uid="ours", name="ours"))
    world.server.delete("resourceclaims", "claim", "default")
    await world.until(lambda: offered() == {"n0": 4, "n1": 2, "n2": 0})
    world.server.delete("deviceclasses", "gpu")
    await world.until(lambda: offered() == {"n0": 0, "n1": 0, "n2": 0})


async def test_without_the_setting_devices_are_not_read(world: FakeWorld) -> None:
    await world.open()
    assert not world.server.requests["GET", "resourceslices"]
