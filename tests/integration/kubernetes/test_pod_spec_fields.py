"""Every field of a pod spec that the API server knows reaches the pod as the job has it.

The jobs pass what production jobs pass: the validation of submit, the event, the lease, the
executor. Each created pod is compared with one that the API server makes of the same spec in a dry
run, so that its defaults, and the fields that it drops, are the same on both sides.
"""

import copy
import json
import urllib.error
from typing import Any, Final

import msgspec
import pytest

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.domain.records.leases import Lease
from fairlead_common.service import clock
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.state.jobs.job_table import NodeName
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.domain.jobs.submission import IdSource, prepare_submission
from fairlead_submit.domain.policy import JobDefaults, JobPolicy
from fairlead_submit.domain.request_types import Submission
from tests.integration.kubernetes import pod_spec_schema
from tests.integration.kubernetes.conftest import RealWorld
from tests.integration.kubernetes.pod_spec_schema import Json, Schema

pytestmark = pytest.mark.kubernetes

NODE: Final = "n0"
OWN_FIELD: Final = {"key": "metadata.name", "operator": "In", "values": [NODE]}
"""The requirement of the node affinity that the executor adds."""


def lease_jobs(specs: list[Json], namespace: str) -> list[Lease]:
    """The leases of jobs with these pod specs, as submit and the scheduler write them."""
    jobs = [{"podSpec": spec, "namespace": namespace} for spec in specs]
    body = msgspec.json.encode({"queue": "q", "jobSet": "s", "jobs": jobs})
    request = msgspec.json.decode(body, type=Submission)
    policy = JobPolicy(job_defaults=JobDefaults(cluster_secrets=True))
    source = IdSource(now_ms=clock.now_ms(), random_79=7)
    made, errors = prepare_submission(request, [], JobTemplates(policy), policy.limits, source)
    assert errors == []
    harness = SchedulerHarness()
    found = []
    for record in ev.records("q", "s", "a test", made.jobs):
        submitted = list(ev.decode(record.value or b"").events)
        harness.fold_events("q", submitted)
        for job in submitted:
            assert isinstance(job, ev.JobSubmitted)
            row = harness.view.jobs.rows[JobId(job.job_id)]
            node = NodeName("e", NODE)
            change = lease_changes.new_lease(harness.view, row, job, node, ())
            found.append(leases.decode(change.record.value or b""))
    return found


def without_additions(spec: Json) -> Json:
    """The spec of a pod without what Fairlead and kube-scheduler add."""
    spec = copy.deepcopy(spec)
    spec.pop("nodeName", None)
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        own = [each for each in container["env"] if not each["name"].startswith("FAIRLEAD_")]
        container["env"] = own
        if not own:
            del container["env"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    for term in terms:
        term["matchFields"].remove(OWN_FIELD)
        if not term["matchFields"]:
            del term["matchFields"]
    if terms == [{}]:
        del spec["affinity"]["nodeAffinity"]
    if not spec["affinity"]:
        del spec["affinity"]
    return spec


def create_runtime_class(world: RealWorld) -> None:
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    there = [item["metadata"]["name"] for item in world.plane.request("GET", path)["items"]]
    if pod_spec_schema.RUNTIME_CLASS not in there:
        body = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": pod_spec_schema.RUNTIME_CLASS},
            "handler": "any",
            "overhead": {"podFixed": pod_spec_schema.OVERHEAD},
        }
        world.plane.request("POST", path, body)


def dry_run(world: RealWorld, field: str, spec: Json) -> Json:
    """The spec of the pod that the API server makes of this one."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dry"}, "spec": spec}
    path = f"{world.path}/pods?dryRun=All&fieldValidation=Strict"
    try:
        made: Json = world.plane.request("POST", path, body)["spec"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"the spec for {field} is not valid: {error.read()!r}") from error
    return made


async def test_every_field_of_a_pod_spec_reaches_the_pod_as_the_job_has_it(
    world: RealWorld,
) -> None:
    schema = Schema(world.plane.request("GET", "/openapi/v3/api/v1"))
    specs = pod_spec_schema.make_pod_specs(schema)
    assert schema.list_fields() - pod_spec_schema.NOT_PASSED.keys() == schema.used
    create_runtime_class(world)
    expected = [dry_run(world, field, spec) for field, spec in specs]
    made = lease_jobs([spec for _, spec in specs], world.namespace)
    await world.open()
    world.cluster.create(made, clock.now_ms())
    await world.until(lambda: len(world.pods()) == len(specs))
    pods: dict[str, Any] = {pod["metadata"]["name"]: pod["spec"] for pod in world.pods()}
    for (field, spec), wanted, lease in zip(specs, expected, made, strict=True):
        changed = pod_spec_schema.list_changes(spec, json.loads(bytes(lease.spec)))
        assert list(changed) == [], f"the lease of a job with {field}"
        created = without_additions(pods[f"{lease.job_id}-1"])
        wanted.pop("nodeName", None)
        assert created == wanted, f"the pod of a job with {field}"
