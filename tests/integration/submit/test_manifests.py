"""Manifests of Kubernetes through the API: all of them become jobs, or none."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.output import yaml_text
from fairlead_common.domain.records import events
from tests.integration.submit.submit_server import Served, served

EXAMPLES = Path(__file__).parents[3] / "examples" / "manifests"


CONTAINER = {"name": "main", "command": ["true"]}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
CONTROLLER = {"apiVersion": "example.com/v1", "kind": "A", "name": "a", "controller": True}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **TEMPLATE}


def manifest(version: str, kind: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}


OWNED_POD = {**POD, "metadata": {"name": "good", "ownerReferences": [CONTROLLER]}}
A_GROUP = {
    **manifest("batch.volcano.sh/v1alpha1", "Job", tasks=[{"name": "a", "template": TEMPLATE}]),
    "metadata": {"name": "good"},
}


@pytest.fixture
async def submit(database: str) -> AsyncIterator[Served]:
    async with served(database) as made:
        yield made


def read(name: str) -> list[Any]:  # `Any`: JSON
    """The manifests of an example."""
    return yaml_text.read_documents((EXAMPLES / name).read_bytes())


async def test_an_indexed_job_becomes_jobs_that_know_their_index(submit: Served) -> None:
    body = {"queue": submit.queue, "manifests": read("indexed-job.yaml")}
    answer = await submit.post("/manifests", body)
    assert answer.status_code == 200, answer.text
    done = answer.json()
    assert (done["queue"], done["jobSet"]) == (submit.queue, "indexed")
    assert [job["clientId"] for job in done["jobs"]] == ["indexed-0", "indexed-1", "indexed-2"]
    ignored = [field["pointer"] for field in done["fields"] if field["use"] == "ignored"]
    assert "/manifests/0/spec/parallelism" in ignored
    found = await submit.events()
    assert [event.job_id for event in found if isinstance(event, events.JobSubmitted)] == [
        job["id"] for job in done["jobs"]
    ]
    assert b'"JOB_COMPLETION_INDEX","value":"2"' in bytes(found[2].spec)  # type: ignore[union-attr]


async def test_the_same_manifests_again_create_nothing(submit: Served) -> None:
    body = {"queue": submit.queue, "manifests": read("pod-group.yaml")}
    first = (await submit.post("/manifests", body)).json()
    again = (await submit.post("/manifests", body)).json()
    assert [job["id"] for job in again["jobs"]] == [job["id"] for job in first["jobs"]]


async def test_a_dry_run_and_a_conversion_create_nothing(submit: Served) -> None:
    body = {"queue": submit.queue, "manifests": read("pod-group.yaml")}
    dry = await submit.post("/manifests?dryRun=true", body)
    assert (dry.status_code, dry.json()["position"]) == (200, None)
    made = (await submit.post("/manifests/convert", body)).json()
    assert [job["gang"]["size"] for job in made["jobs"]] == [2, 2]
    assert await submit.events() == []
    accepted = await submit.post("/jobs", {key: made[key] for key in ("queue", "jobSet", "jobs")})
    assert accepted.status_code == 200, accepted.text


async def test_one_bad_manifest_refuses_all_and_is_named_where_it_stands(submit: Served) -> None:
    good, bad = read("indexed-job.yaml") * 2
    bad = {**bad, "metadata": {"name": "bad"}}
    bad["spec"] = {
        **bad["spec"],
        "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}},
    }
    answer = await submit.post("/manifests", {"queue": submit.queue, "manifests": [good, bad]})
    assert answer.status_code == 422
    pointers = [error["pointer"] for error in answer.json()["errors"]]
    place = "/manifests/1/spec/template/spec/containers/0/resources/requests/cpu"
    assert pointers == [place]
    assert await submit.events() == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/manifests"),
        ({"manifests": []}, "/manifests"),
        ({"manifests": ["x"]}, "/manifests/0"),
        ({"manifests": [{"kind": "Deployment"}], "queue": "q"}, "/manifests/0/kind"),
        ({"manifests": [POD]}, "/queue"),
        ({"manifests": [], "more": 1}, "/more"),
    ],
)
async def test_what_is_wrong_with_a_request_is_named(
    submit: Served, body: dict[str, object], pointer: str
) -> None:
    answer = await submit.post("/manifests", body)
    assert answer.status_code == 422, answer.text
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("call", ["/manifests", "/manifests/convert"])
@pytest.mark.parametrize(
    ("good", "bad", "pointer", "says"),
    [
        (
            A_GROUP,
            manifest(
                "paddlepaddle.org/v1",
                "TrainingJob",
                fault_tolerant=True,
                trainer={"min-instance": 5, "max-instance": 2},
            ),
            "spec/trainer/min-instance",
            "is 5, more than the maximum of 2",
        ),
        (
            A_GROUP,
            manifest(
                "kubeflow.org/v1",
                "PyTorchJob",
                elasticPolicy={"minReplicas": 5, "maxReplicas": 2},
                pytorchReplicaSpecs={"Worker": {"replicas": 1, "template": TEMPLATE}},
            ),
            "spec/elasticPolicy/minReplicas",
            "is 5, more than the maximum of 2",
        ),
        (
            A_GROUP,
            manifest(
                "batch.volcano.sh/v1alpha1", "Job", tasks=[{"name": "A_b", "template": TEMPLATE}]
            ),
            "spec/tasks/0/name",
            "is not a valid name of a role",
        ),
        (
            A_GROUP,
            manifest(
                "batch.volcano.sh/v1alpha1",
                "Job",
                minAvailable=9,
                tasks=[{"name": "a", "replicas": 2, "template": TEMPLATE}],
            ),
            "spec/minAvailable",
            "is 9, more than all replicas (2)",
        ),
        (
            A_GROUP,
            manifest(
                "batch.volcano.sh/v1alpha1",
                "Job",
                priorityClassName="unheard-of",
                tasks=[{"name": "a", "template": TEMPLATE}],
            ),
            "spec/priorityClassName",
            "unheard-of",
        ),
        (
            OWNED_POD,
            manifest("batch/v1", "Job", template=TEMPLATE, activeDeadlineSeconds=10**12),
            "spec/activeDeadlineSeconds",
            "at most 316224000",
        ),
        (
            OWNED_POD,
            {
                "apiVersion": "arbitrator.incubator.k8s.io/v1",
                "kind": "SchedulingSpec",
                "metadata": {"name": "a", "ownerReferences": [CONTROLLER]},
                "spec": {"minAvailable": 1, "priorityClassName": "unheard-of"},
            },
            "spec/priorityClassName",
            "unheard-of",
        ),
        (OWNED_POD, {**POD, "metadata": {"name": "a" * 200}}, "metadata/name", "128"),
        (OWNED_POD, {**POD, "metadata": {"generateName": "a-"}}, "metadata/name", "is missing"),
    ],
)
async def test_what_cannot_be_submitted_is_not_converted_either(
    submit: Served,
    call: str,
    good: dict[str, object],
    bad: dict[str, object],
    pointer: str,
    says: str,
) -> None:
    body = {"queue": submit.queue, "manifests": [good, bad]}
    answer = await submit.post(call, body)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == f"/manifests/1/{pointer}"
    assert says in error["detail"]
    assert await submit.events() == []


async def test_a_conversion_does_not_need_a_queue(submit: Served) -> None:
    made = await submit.post("/manifests/convert", {"manifests": [POD]})
    assert made.status_code == 200, made.text
    assert (made.json()["queue"], made.json()["jobSet"]) == ("", "a")
    bad = await submit.post("/manifests/convert", {"queue": "No Name", "manifests": [POD]})
    assert [error["pointer"] for error in bad.json()["errors"]] == ["/queue"]


async def test_the_pods_of_a_scheduling_spec_are_a_gang(submit: Served) -> None:
    body = {"queue": submit.queue, "manifests": read("scheduling-spec.yaml")}
    answer = await submit.post("/manifests", body)
    assert answer.status_code == 200, answer.text
    found = [event for event in await submit.events() if isinstance(event, events.JobSubmitted)]
    gangs = [event.gang for event in found if event.gang is not None]
    assert [(gang.name, gang.size, gang.min_size) for gang in gangs] == [("crd-job", 3, 2)] * 3
    assert [event.priority_class for event in found] == ["high"] * 3
