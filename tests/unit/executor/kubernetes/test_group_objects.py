"""Pods of groups, and the ConfigMap and the headless service of a group."""

import json
from typing import Any

import pytest

from fairlead_common.domain.ids import GroupId, RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import LeasedMember
from fairlead_common.domain.secret_values import Keyring
from fairlead_executor.backends.kubernetes.domain import group_manifests
from fairlead_executor.backends.kubernetes.domain.api_objects import ObjectMeta, PodObject
from fairlead_executor.backends.kubernetes.domain.pod_manifest import build_pod
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.domain.cluster_protocol import GroupFile
from tests.unit.executor.kubernetes.conftest import FakeWorld
from tests.unit.executor.kubernetes.objects import OWNER, make_lease

GROUP = GroupId("g".ljust(28, "0"))
CONFIG_MAP = f"fairlead-group-{GROUP}"
Json = dict[str, Any]  # `Any`: JSON


def member(**fields: Any) -> LeasedMember:  # `Any`: of the member
    return LeasedMember(group=GROUP, name="fit", role="worker", index=3, **fields)


def build(spec: Json | None = None, **fields: Any) -> Json:  # `Any`: of the member
    lease = make_lease(spec, member=member(**fields), env={"FAIRLEAD_ROLE": "worker"})
    return build_pod(lease, OWNER, KubernetesSettings(), Keyring("k")).pod


def variables(pod: Json) -> dict[str, Json]:
    return {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}


def test_pods_of_groups_mount_the_group_file_in_every_container() -> None:
    volume = {"name": "data", "emptyDir": {}}
    mount = {"name": "data", "mountPath": "/data"}
    containers = [{"name": "a", "volumeMounts": [mount]}, {"name": "b"}]
    pod = build({"containers": containers, "volumes": [volume]})
    assert pod["metadata"]["labels"]["fairlead.dev/group"] == GROUP
    source = {"name": CONFIG_MAP, "optional": True}
    assert pod["spec"]["volumes"] == [volume, {"name": "fairlead-group", "configMap": source}]
    own = {"name": "fairlead-group", "mountPath": "/var/run/fairlead/group", "readOnly": True}
    mounts = [container["volumeMounts"] for container in pod["spec"]["containers"]]
    assert mounts == [[mount, own], [own]]
    path = "/var/run/fairlead/group/members.json"
    assert variables(pod)["FAIRLEAD_GROUP_FILE"]["value"] == path
    assert "hostname" not in pod["spec"]


def test_pods_of_a_group_with_a_service_have_host_names() -> None:
    spec = build(service=True)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("worker-3", "fit")


def test_the_master_gets_its_own_address_from_kubernetes() -> None:
    found = variables(build(master=("worker", 3)))["MASTER_ADDR"]
    assert found == {
        "name": "MASTER_ADDR",
        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
    }
    assert "MASTER_ADDR" not in variables(build(master=("worker", 0)))


def test_other_pods_have_nothing_of_groups() -> None:
    pod = build_pod(make_lease(), OWNER, KubernetesSettings(), Keyring("k")).pod
    assert "volumes" not in pod["spec"]
    assert "fairlead.dev/group" not in pod["metadata"]["labels"]


def file(run: RunId, content: str, *, service: bool = True) -> GroupFile:
    return GroupFile(GROUP, "fit", [run], content.encode(), ["default"], service)


def content(world: FakeWorld) -> str | None:
    found = world.server.find("configmaps", CONFIG_MAP)
    return None if found is None else str(found["data"]["members.json"])


@pytest.mark.parametrize(
    ("role", "address", "omitted"),
    [
        ("trainer", "10.100.100.100", False),
        ("x" * 40, "fd00:1234:5678:9abc:def0:1234:5678:9abc", True),
    ],
)
def test_a_config_map_holds_the_largest_group(role: str, address: str, omitted: bool) -> None:
    """10,000 members: without hosts, and where that is not enough without the last of them."""
    members = [
        {"role": role, "index": index, "host": "n" * 60, "address": address, "state": "RUNNING"}
        for index in range(10_000)
    ]
    whole = json.dumps({"group": "fit", "members": members})
    made = group_manifests.build_config_map(file(RunId("r"), whole), "default", {}, [])
    written = made["data"]["members.json"]
    assert len(written) < 1_048_576 < len(whole)
    found = json.loads(written)
    count = len(found["members"])
    assert found["members"] == [{**member, "host": ""} for member in members[:count]]
    assert (count < 10_000) == omitted
    assert found.get("omitted", 0) == 10_000 - count


def test_a_large_group_has_few_owners_and_a_small_file_stays_as_it_is() -> None:
    pods = [PodObject(ObjectMeta(name=f"p{number}", uid=str(number))) for number in range(10_000)]
    owners = group_manifests.list_owners(pods)
    assert [owner["name"] for owner in owners] == [f"p{n}" for n in range(100)]
    assert group_manifests.shorten_content(b"{}") == b"{}"


async def test_the_objects_of_a_group_follow_what_is_written_and_end_with_it(
    world: FakeWorld,
) -> None:
    await world.open()
    run = world.create(member=member(service=True))
    world.cluster.write_group_file(file(run, "first"))
    await world.until(lambda: content(world) == "first")
    await world.until_pod(run, lambda pod: pod.started_ms > 0)
    world.cluster.write_group_file(file(run, "second"))
    await world.until(lambda: content(world) == "second")

    def owners() -> list[str]:
        found = world.server.find("services", "fit")
        return (
            [] if found is None else [each["name"] for each in found["metadata"]["ownerReferences"]]
        )

    await world.until(lambda: owners() == [run])
    service = world.server.find("services", "fit")
    assert service is not None
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"fairlead.dev/group": GROUP},
    }
    world.cluster.retain_groups([GROUP])
    world.cluster.retain_groups([])
    await world.until(lambda: content(world) is None)
    await world.until(lambda: world.server.find("services", "fit") is None)


async def test_the_next_executor_continues_with_the_objects_that_exist(world: FakeWorld) -> None:
    await world.open()
    run = world.create(member=member(service=True))
    world.cluster.write_group_file(file(run, "first"))
    await world.until(lambda: world.server.find("services", "fit") is not None)
    await world.open()
    world.cluster.write_group_file(file(run, "second"))
    await world.until(lambda: content(world) == "second")


async def test_a_service_of_somebody_else_fails_the_group_and_stays(world: FakeWorld) -> None:
    await world.open()
    theirs: Json = {"metadata": {"name": "fit", "namespace": "default", "labels": {}}}
    world.server.put("services", theirs)
    run = world.create(member=member(service=True))
    world.cluster.write_group_file(file(run, "first"))
    end = (await world.until_ended(run)).end
    assert end is not None
    assert (end.category, "name the group otherwise" in end.reason) == (
        FailureCategory.ADMISSION,
        True,
    )
    world.cluster.retain_groups([])
    await world.until(lambda: content(world) is None)
    assert world.server.find("services", "fit") is not None


async def test_refused_and_lost_requests_are_repeated(world: FakeWorld) -> None:
    await world.open()
    run = world.create(member=member())
    await world.until_pod(run, lambda pod: pod.started_ms > 0)
    world.server.refusals = [403, 500]
    world.server.answers_lost = 1
    world.cluster.write_group_file(file(run, "first", service=False))
    await world.until(lambda: content(world) == "first")
    assert json.dumps(world.server.find("services", "fit")) == "null"
