"""Services and ingresses of a run: when they are created, for whom, and what a refusal means."""

import msgspec

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.backends.kubernetes.domain import network_objects
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import Phase, Pod
from tests.fake_api_server import Json
from tests.unit.executor.kubernetes.conftest import FakeWorld
from tests.unit.executor.kubernetes.objects import make_pod
from tests.unit.executor.kubernetes.world import INGRESS, SERVICE


def runs(pod: Pod) -> bool:
    return pod.phase is Phase.RUNNING


async def until_there(world: FakeWorld, kind: str, run: RunId) -> Json:
    await world.until(lambda: world.server.find(kind, f"web-{run}") is not None)
    found = world.server.find(kind, f"web-{run}")
    assert found is not None
    return found


async def test_they_belong_to_the_pod_and_lead_to_it(world: FakeWorld) -> None:
    await world.open()
    run = world.create(services=(SERVICE,), ingresses=(INGRESS,))
    ingress = await until_there(world, "ingresses", run)
    service, pod = await until_there(world, "services", run), world.server.find("pods", run)
    assert pod is not None
    owner = {"apiVersion": "v1", "kind": "Pod", "name": run, "uid": pod["metadata"]["uid"]}
    assert service["metadata"]["ownerReferences"] == [owner]
    assert ingress["metadata"]["ownerReferences"] == [owner]
    assert service["spec"]["ports"] == [{"port": 80}]
    selector = service["spec"]["selector"].items()
    assert selector
    assert selector <= pod["metadata"]["labels"].items()
    name = {"name": f"web-{run}", "port": {"number": 80}}
    assert ingress["spec"]["defaultBackend"] == {"service": name}
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"] == {"service": name}
    assert ingress["metadata"]["annotations"] == {"note": "x"}


async def test_a_run_without_them_sends_no_request_and_has_no_annotation(world: FakeWorld) -> None:
    await world.open()
    run = world.create()
    await world.until_pod(run, runs)
    pod = world.server.find("pods", run)
    assert pod is not None
    assert network_objects.ANNOTATION not in pod["metadata"]["annotations"]
    assert not world.server.requests["POST", "services"]


async def test_an_executor_that_was_killed_after_the_pod_leaves_them_to_the_next_one(
    world: FakeWorld,
) -> None:
    await world.open()
    run = world.create(services=(SERVICE,), ingresses=(INGRESS,))
    await until_there(world, "ingresses", run)
    await world.close()
    world.server.delete("services", f"web-{run}", "default")  # as if it had not been created
    await world.open()
    await until_there(world, "services", run)
    assert world.cluster.pods[run].live, "the ingress that exists is no failure"


async def test_a_request_without_an_answer_or_with_a_server_error_is_repeated(
    world: FakeWorld,
) -> None:
    await world.open()
    world.server.refusals = [503, 429]
    world.server.answers_lost = 2
    run = world.create(services=(SERVICE,), ingresses=(INGRESS,))
    await until_there(world, "services", run)
    await until_there(world, "ingresses", run)
    await world.until_pod(run, runs)


async def test_a_refusal_fails_the_run_with_the_words_of_the_server(world: FakeWorld) -> None:
    await world.open()
    world.server.refused_kinds["services"] = 'Service "web" is invalid: spec.ports[0].port: 0'
    run = world.create(services=(SERVICE,))
    end = (await world.until_ended(run)).end
    assert end is not None
    assert end.category is FailureCategory.ADMISSION
    assert end.reason == (
        'its service web cannot be created: Service "web" is invalid: spec.ports[0].port: 0'
    )


async def test_an_annotation_that_cannot_be_read_fails_the_run(world: FakeWorld) -> None:
    await world.open()
    run = world.create(services=(SERVICE,))
    await until_there(world, "services", run)
    await world.close()
    pod = world.server.find("pods", run)
    assert pod is not None
    pod["metadata"]["annotations"][network_objects.ANNOTATION] = "{"
    world.server.put("pods", pod)
    await world.open()
    end = (await world.until_ended(run)).end
    assert end is not None
    assert end.reason.startswith("its services cannot be read")


async def test_a_run_that_is_to_stop_gets_none(world: FakeWorld) -> None:
    await world.open()
    world.server.refused_kinds["services"] = "not now"
    world.server.refusal_code = 503
    run = world.create(services=(SERVICE,))
    await world.until(lambda: world.server.requests["POST", "services"] > 0)
    world.cluster.stop(run, 1, pods.stopped("enough"))
    assert (await world.until_ended(run)).end == pods.stopped("enough")


def test_services_of_others_keep_their_names() -> None:
    spec = {"defaultBackend": {"service": {"name": "other"}}}
    ingress = msgspec.structs.replace(INGRESS, spec=msgspec.Raw(msgspec.json.encode(spec)))
    text = msgspec.json.encode({"ingresses": [ingress]}).decode()
    pod = make_pod(annotations={network_objects.ANNOTATION: text})
    (creation,) = network_objects.list_creations(pod, {}, {})
    assert creation.body["spec"] == spec
