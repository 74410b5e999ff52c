"""The fates of runs on a real API server, with kube-scheduler and nodes of KWOK."""

import base64
from typing import Any

import msgspec
import pytest

from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.secret_values import Keyring
from fairlead_common.domain.timestamps import parse_rfc3339
from fairlead_executor.backends.kubernetes.settings import PendingAction, PendingRule
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import SUCCEEDED, End, EndKind, Phase, Pod
from fairlead_executor.domain.run_logs import NoLog
from tests.integration.kubernetes.conftest import RealWorld
from tests.kubernetes_control_plane import node_object
from tests.unit.executor.kubernetes.world import INGRESS, SERVICE

pytestmark = pytest.mark.kubernetes

SUCCEEDS = {"run-for": "10ms"}
MERGE = "application/merge-patch+json"
AT_ONCE = (
    PendingRule(
        reasons=("ImagePullBackOff",),
        action=PendingAction.FAIL,
        category=FailureCategory.IMAGE_PULL,
    ),
    PendingRule(reasons=("Unschedulable",), action=PendingAction.RETURN),
)


def runs(pod: Pod) -> bool:
    return pod.phase is Phase.RUNNING


def end_of(pod: Pod) -> End:
    assert pod.end is not None
    return pod.end


@pytest.mark.parametrize("binding", ["affinity", "direct"])
async def test_a_run_is_bound_to_the_node_of_its_lease(world: RealWorld, binding: str) -> None:
    await world.open(binding=binding)
    run = world.run(node="n1")
    await world.until_pod(run, runs)
    (pod,) = world.pods()
    assert pod["spec"]["nodeName"] == "n1"


async def test_services_and_ingresses_belong_to_the_pod_and_lead_to_it(world: RealWorld) -> None:
    await world.open()
    run = world.run(services=(SERVICE,), ingresses=(INGRESS,))
    path = f"/apis/networking.k8s.io/v1/namespaces/{world.namespace}/ingresses"

    def is_there() -> bool:
        return bool(world.plane.request("GET", path)["items"])

    await world.until(is_there)
    (service,) = world.plane.request("GET", f"{world.path}/services")["items"]
    (ingress,) = world.plane.request("GET", path)["items"]
    (pod,) = world.pods()
    for item in (service, ingress):
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", pod["metadata"]["uid"])
    assert service["metadata"]["name"] == f"web-{run}"
    selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
    found = world.plane.request("GET", f"{world.path}/pods?labelSelector={selector}")["items"]
    assert [item["metadata"]["name"] for item in found] == [run]
    (route,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert route["backend"]["service"]["name"] == service["metadata"]["name"]


async def test_a_service_that_the_server_refuses_fails_the_run_with_its_words(
    world: RealWorld,
) -> None:
    await world.open()
    spec = msgspec.Raw(b'{"ports": [{"port": 99999}]}')
    service = msgspec.structs.replace(SERVICE, spec=spec)
    end = end_of(await world.until_ended(world.run(services=(service,))))
    assert end.category is FailureCategory.ADMISSION
    assert "its service web cannot be created" in end.reason
    assert "spec.ports[0].port: Invalid value: 99999" in end.reason


async def test_a_container_that_exceeds_its_memory_fails_so(world: RealWorld) -> None:
    await world.open()
    fate = {**SUCCEEDS, "exit-code": "137", "reason": "OOMKilled"}
    end = end_of(await world.until_ended(world.run(annotations=fate)))
    assert (end.category, end.exit_code) == (FailureCategory.OOM, 137)


async def test_an_image_that_cannot_be_pulled_fails_the_run(world: RealWorld) -> None:
    await world.open(pending_rules=AT_ONCE)
    run = world.run(annotations={"waiting": "ImagePullBackOff"})
    end = end_of(await world.until_ended(run))
    assert end.category is FailureCategory.IMAGE_PULL


async def test_a_pod_that_fits_nowhere_is_returned_with_the_words_of_the_scheduler(
    world: RealWorld,
) -> None:
    await world.open(pending_rules=AT_ONCE)
    resources = {"requests": {"cpu": "1000"}}
    spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    end = end_of(await world.until_ended(world.run(spec=spec)))
    assert end.kind is EndKind.RETURNED
    assert "Insufficient cpu" in end.reason


async def test_a_run_that_exceeds_its_maximum_run_time_fails_so(world: RealWorld) -> None:
    await world.open()
    end = end_of(await world.until_ended(world.run(runtime_s_max=1)))
    assert end.category is FailureCategory.DEADLINE


async def test_a_run_can_be_preempted_while_it_is_running(world: RealWorld) -> None:
    await world.open()
    run = world.run()
    await world.until_pod(run, runs)
    preempted = pods.stopped("preempted for another job")
    world.cluster.stop(run, 5, preempted)
    assert (await world.until_ended(run)).end == preempted


async def test_the_log_of_a_container_can_be_read_in_parts(world: RealWorld) -> None:
    await world.open()
    run = world.run(annotations=SUCCEEDS)
    await world.until_ended(run)
    whole = b"first\nsecond\nthird\n"
    assert await world.read_log(run) == whole
    assert await world.read_log(run, container="main", tail=2) == b"second\nthird\n"
    assert await world.read_log(run, since_bytes=len(b"first\n")) == b"second\nthird\n"
    for size in (1, len(b"third\n"), len(whole), 1_000):
        assert await world.read_log_end(run, size) == (whole[-size:], size < len(whole))
    before_ms, after_ms = (parse_rfc3339(f"{year}-01-01T00:00:00Z") for year in (2025, 2027))
    assert await world.read_log(run, since_ms=before_ms) == whole
    assert await world.read_log(run, since_ms=after_ms) == b""
    with pytest.raises(NoLog, match="other"):
        await world.read_log(run, container="other")


async def test_a_pod_that_was_removed_has_no_log(world: RealWorld) -> None:
    await world.open(ended_pods_max=0)
    run = world.run(annotations=SUCCEEDS)
    await world.until_ended(run)
    world.cluster.remove([run])
    await world.until(lambda: not world.pods())
    with pytest.raises(NoLog, match="removed"):
        await world.read_log(run)


async def test_a_run_can_be_cancelled_while_it_is_pending(world: RealWorld) -> None:
    await world.open()
    resources = {"requests": {"cpu": "1000"}}
    spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    run = world.run(spec=spec)
    await world.until(lambda: bool(world.pods()))
    cancelled = pods.stopped("cancelled")
    world.cluster.stop(run, 20, cancelled)
    assert (await world.until_ended(run)).end == cancelled


async def test_a_pod_that_somebody_deletes_is_noticed_and_held(world: RealWorld) -> None:
    await world.open(ended_pods_max=0)
    run = world.run()
    await world.until_pod(run, runs)
    world.plane.request("DELETE", f"{world.path}/pods/{run}")
    end = end_of(await world.until_ended(run))
    assert end.category is FailureCategory.POD_DELETED
    assert len(world.pods()) == 1
    world.cluster.remove([run])
    await world.until(lambda: not world.pods())


async def test_the_runs_of_a_node_that_is_deleted_are_given_up(world: RealWorld) -> None:
    name = f"{world.namespace}-lost"
    world.plane.add_nodes(name)
    await world.open(node_lost_s=1)
    await world.until(lambda: any(node.name == name for node in world.cluster.nodes()))
    run = world.run(node=name)
    await world.until_pod(run, runs)
    world.plane.request("DELETE", f"/api/v1/nodes/{name}")
    end = end_of(await world.until_ended(run))
    assert end.category is FailureCategory.NODE_LOST


async def test_the_runs_of_a_node_that_is_not_ready_are_given_up(world: RealWorld) -> None:
    name = f"{world.namespace}-dark"
    world.plane.add_nodes(name)
    await world.open(node_lost_s=1)
    await world.until(
        lambda: any(node.name == name and not node.unschedulable for node in world.cluster.nodes())
    )
    run = world.run(node=name)
    await world.until_pod(run, runs)
    status = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
    path = f"/api/v1/nodes/{name}/status"
    world.plane.request("PATCH", path, {"status": status}, MERGE)
    end = end_of(await world.until_ended(run))
    assert end.category is FailureCategory.NODE_LOST
    world.plane.request("DELETE", f"/api/v1/nodes/{name}")


async def test_a_namespace_that_does_not_exist_fails_the_run(world: RealWorld) -> None:
    await world.open()
    end = end_of(await world.until_ended(world.run(namespace="nowhere")))
    assert end.category is FailureCategory.ADMISSION
    assert "nowhere" in end.reason


async def test_a_run_beyond_the_quota_is_returned(world: RealWorld) -> None:
    await world.open()
    hard = {"pods": "0"}
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": hard},
    }
    world.plane.request("POST", f"{world.path}/resourcequotas", body)
    # The controller manager would do this.
    status = {"status": {"hard": hard, "used": {"pods": "0"}}}
    world.plane.request("PATCH", f"{world.path}/resourcequotas/none/status", status, MERGE)
    end = end_of(await world.until_ended(world.run()))
    assert end.kind is EndKind.RETURNED
    assert "exceeded quota" in end.reason


async def test_a_pod_that_a_policy_denies_fails_with_its_words(world: RealWorld) -> None:
    await world.open()
    await _deny(world, "not in this namespace")
    good: list[object] = []

    async def is_denied(number: int) -> bool:
        """A policy counts only once the API server has compiled it."""
        end = end_of(await world.until_ended(world.run(f"p{number:02}", annotations=SUCCEEDS)))
        if end == SUCCEEDED:
            good.append(end)
            return False
        assert end.category is FailureCategory.ADMISSION
        assert "not in this namespace" in end.reason
        return True

    assert any([await is_denied(number) for number in range(30)][-1:])


async def _deny(world: RealWorld, message: str) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    name = {"name": world.namespace}
    policy: dict[str, Any] = {  # `Any`: JSON
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": name,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
            "validations": [{"expression": "false", "message": message}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": name,
        "spec": {"policyName": world.namespace, "validationActions": ["Deny"]},
    }
    world.plane.request("POST", f"{group}/validatingadmissionpolicies", policy)
    world.plane.request("POST", f"{group}/validatingadmissionpolicybindings", binding)


async def test_a_spec_that_is_not_valid_fails_with_the_words_of_the_server(
    world: RealWorld,
) -> None:
    await world.open()
    bad = world.run("a", spec={"containers": [{"name": "Not Valid", "image": "x"}]})
    good = world.run("b", annotations=SUCCEEDS)
    end = end_of(await world.until_ended(bad))
    assert end.category is FailureCategory.ADMISSION
    assert "spec.containers[0].name" in end.reason
    assert (await world.until_ended(good)).end == SUCCEEDED


async def test_online_services_shrink_and_grow_what_a_node_offers(world: RealWorld) -> None:
    name = f"{world.namespace}-shared"
    world.plane.request("POST", "/api/v1/nodes", node_object(name, pool="online"))
    await world.open()

    def offered() -> int:
        found = {node.name: node.allocatable["cpu"] for node in world.cluster.nodes()}
        return found.get(name, 0)

    await world.until(lambda: offered() == 8000)
    resources = {"requests": {"cpu": "3"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "service"},
        "spec": {
            "nodeName": name,
            "containers": [{"name": "main", "image": "x", "resources": resources}],
        },
    }
    world.plane.request("POST", f"{world.path}/pods", pod)
    await world.until(lambda: offered() == 5000)
    body = {"gracePeriodSeconds": 0}
    world.plane.request("DELETE", f"{world.path}/pods/service", body)
    await world.until(lambda: offered() == 8000)
    world.plane.request("DELETE", f"/api/v1/nodes/{name}")


async def test_secret_values_are_in_a_secret_that_the_pod_owns(world: RealWorld) -> None:
    await world.open(secrets_key="a key")
    sealed = Keyring("a key").seal("q", "hunter2")
    container = {"name": "main", "image": "x", "env": [{"name": "P", "sealed": sealed}]}
    run = world.run(spec={"containers": [container]})
    await world.until(lambda: bool(world.plane.request("GET", f"{world.path}/secrets")["items"]))
    (secret,) = world.plane.request("GET", f"{world.path}/secrets")["items"]
    (pod,) = world.pods()
    assert base64.b64decode(secret["data"]["v0"]) == b"hunter2"
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == (run, pod["metadata"]["uid"])
