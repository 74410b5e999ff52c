"""What a queue may use, gangs as Armada says them, and what grace a job gets."""

from typing import Any

import msgspec
import pytest

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.domain.jobs.submission import IdSource, prepare_submission
from fairlead_submit.domain.policy import AllowList, JobPolicy
from fairlead_submit.domain.request_types import Submission

RUN = {"command": ["true"]}
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}


def pod(**more: object) -> dict[str, Any]:
    """A job with a pod spec (`Any`: JSON)."""
    return {"podSpec": {"containers": [{}], **more}}


def submitted(
    job: object, allow: AllowList | None = None
) -> tuple[events.JobSubmitted, list[FieldError]]:
    settings = JobPolicy(allow={} if allow is None else {"q": allow})
    body = msgspec.json.encode({"queue": "q", "jobSet": "s", "jobs": [job]})
    request = msgspec.json.decode(body, type=Submission)
    templates = JobTemplates(settings)
    prepared, found = prepare_submission(request, [], templates, settings.limits, IdSource(0, 0))
    return prepared.jobs[0], found


REFUSED = {
    "another namespace": (AllowList(namespaces=("a",)), RUN, "/namespace"),
    "another account": (
        AllowList(service_accounts=("a",)),
        pod(serviceAccountName="b"),
        "/podSpec/serviceAccountName",
    ),
    "the account that one has without saying": (
        AllowList(service_accounts=("a",)),
        pod(),
        "/podSpec/serviceAccountName",
    ),
    "another kind of volume": (AllowList(volumes=("emptyDir",)), pod(volumes=[CLAIM]), "volumes/0"),
    "another volume of a kind": (
        AllowList(volumes=("persistentVolumeClaim/other",)),
        pod(volumes=[CLAIM]),
        "/podSpec/volumes/0",
    ),
    "a path of the machine": (
        AllowList(volumes=("emptyDir",)),
        pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        "/podSpec/volumes/0",
    ),
    "a node by name": (AllowList(nodes=("n0",)), pod(nodeName="n0"), "/podSpec/nodeName"),
}


@pytest.mark.parametrize(("allow", "job", "pointer"), REFUSED.values(), ids=REFUSED.keys())
def test_fields_outside_the_allow_list_are_refused(
    allow: AllowList, job: object, pointer: str
) -> None:
    _, found = submitted(job, allow)
    assert [error.pointer.endswith(pointer) for error in found] == [True], found
    assert "permitted to use" in found[0].detail or "nodeName" in found[0].pointer


def test_fields_of_the_allow_list_are_accepted() -> None:
    allow = AllowList(
        namespaces=("default",),
        volumes=("persistentVolumeClaim/data", "emptyDir"),
        service_accounts=("default", "a"),
    )
    for job in (RUN, pod(volumes=[CLAIM, {"name": "w"}], serviceAccountName="a")):
        assert submitted(job, allow)[1] == []


def test_invalid_fields_of_a_restricted_queue_are_named() -> None:
    for spec in (5, {"containers": [{"args": ["x" * 70_000]}]}):
        _, found = submitted({"podSpec": spec}, AllowList(nodes=("n0",), volumes=()))
        assert [error.pointer for error in found] == ["/jobs/0/podSpec"]


def test_other_queues_are_not_limited() -> None:
    settings = JobPolicy(allow={"other": AllowList(namespaces=())})
    assert JobTemplates(settings).make_shared_terms("q", None, None).allow is None


def test_a_queue_with_nodes_of_its_own_stays_on_them() -> None:
    requirement = shapes.Requirement("metadata.name", "In", ("n0", "n1"))
    event, found = submitted(RUN, AllowList(nodes=("n1", "n0")))
    assert found == []
    assert shapes.decode(event.shape).affinity == (
        shapes.SelectorTerm(match_fields=(requirement,)),
    )
    expression = {"key": "a", "operator": "Exists"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}, {}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    event, found = submitted(pod(affinity=affinity), AllowList(nodes=("n0", "n1")))
    assert found == []
    terms = shapes.decode(event.shape).affinity
    assert [term.match_fields for term in terms if term.match_expressions] == [(requirement,)]
    assert shapes.SelectorTerm() in terms, "what meets nothing goes on meeting nothing"


def armada(**words: str) -> dict[str, Any]:
    return {**RUN, "annotations": {f"armadaproject.io/{key}": text for key, text in words.items()}}


def test_gang_annotations_of_armada_are_read() -> None:
    job = armada(
        gangId="g", gangCardinality="4", gangMinimumCardinality="2", gangNodeUniformityLabel="rack"
    )
    event, found = submitted(job)
    assert found == []
    assert event.gang == events.Gang(name="g", size=4, min_size=2, uniformity_label="rack")
    same = {**job, "gang": {"name": "g", "size": 4, "minSize": 2, "rest": "fail"}}
    event, found = submitted(same)
    assert found == []
    assert event.gang is not None
    assert event.gang.rest == "fail"


ODD = {
    "no size": (armada(gangId="g"), "gangCardinality"),
    "no name": (armada(gangCardinality="2"), "gangId"),
    "an empty name": (armada(gangId="", gangCardinality="2"), "gangId"),
    "a size that is none": (armada(gangId="g", gangCardinality="two"), "gangCardinality"),
    "a size of nothing": (armada(gangId="g", gangCardinality="0"), "gangCardinality"),
    "another size than the gang's": (
        {**armada(gangId="g", gangCardinality="2"), "gang": {"name": "g", "size": 3}},
        "gangCardinality",
    ),
}


@pytest.mark.parametrize(("job", "word"), ODD.values(), ids=ODD.keys())
def test_invalid_gang_annotations_of_armada_are_refused(job: object, word: str) -> None:
    _, found = submitted(job)
    assert f"/jobs/0/annotations/armadaproject.io~1{word}" in {error.pointer for error in found}


@pytest.mark.parametrize(("given", "grace_s"), [(None, 1), (0, 1), (1, 1), (300, 300)])
def test_the_grace_period_of_a_job(given: int | None, grace_s: int) -> None:
    event, found = submitted(pod(terminationGracePeriodSeconds=given))
    assert found == []
    assert event.grace_s == grace_s
