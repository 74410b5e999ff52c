"""From jobs to events: digests, ids, and jobs that are alike."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_submit.domain.jobs import job_terms
from fairlead_submit.domain.jobs.job_templates import JOB_BYTES_MAX, JobTemplates
from fairlead_submit.domain.jobs.submission import (
    STEP_JOBS,
    IdSource,
    PreparedSubmission,
    SubmissionPreparation,
    prepare_submission,
)
from fairlead_submit.domain.policy import JobDefaults, JobPolicy, Limits
from fairlead_submit.domain.request_types import Submission

RUN = {"command": ["true"]}
PLACE = IdSource(now_ms=1_800_000_000_000, random_79=12345)


def prepared(
    jobs: list[object],
    defaults: object = None,
    settings: JobPolicy | None = None,
    templates: JobTemplates | None = None,
) -> tuple[PreparedSubmission, list[FieldError]]:
    body = {"queue": "q", "jobSet": "s", "jobs": jobs, "defaults": defaults}
    given = settings or JobPolicy()
    request = msgspec.json.decode(msgspec.json.encode(body), type=Submission)
    return prepare_submission(request, [], templates or JobTemplates(given), given.limits, PLACE)


def digest(job: object, defaults: object = None, settings: JobPolicy | None = None) -> str:
    made, found = prepared([job], defaults, settings)
    assert found == []
    return made.jobs[0].digest


SPEC = {"containers": [{"name": "main", "image": "x", "args": ["1"]}]}

SAME = {
    "a default that is said": ({**RUN, "priority": None}, RUN),
    "fields in another order": (
        {"cpu": "1", "labels": {"a": "1", "b": "2"}, **RUN},
        {**RUN, "labels": {"b": "2", "a": "1"}, "cpu": "1"},
    ),
    "a pod spec in another order": (
        {"podSpec": SPEC},
        {"podSpec": {"containers": [{"args": ["1"], "image": "x", "name": "main"}]}},
    ),
    "another client id": ({**RUN, "clientId": "a"}, {**RUN, "clientId": "b"}),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_equivalent_jobs_have_equal_digests(one: object, other: object) -> None:
    assert digest(one) == digest(other)


OTHER = {
    "another command": (RUN, {"command": ["false"]}),
    "another amount": ({**RUN, "cpu": 1}, {**RUN, "cpu": 2}),
    "another pod spec": ({"podSpec": SPEC}, {"podSpec": {"containers": [{"name": "main"}]}}),
    "another job to wait for": ({**RUN, "after": ["a"]}, {**RUN, "after": ["b"]}),
    "another priority": (RUN, {**RUN, "priority": 1}),
}


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER.keys())
def test_different_jobs_have_different_digests(one: object, other: object) -> None:
    assert digest(one) != digest(other)


def test_a_digest_does_not_cover_defaults() -> None:
    changed = JobPolicy(job_defaults=JobDefaults(requests={"cpu": "7"}))
    assert digest(RUN) == digest(RUN, settings=changed)
    assert digest({**RUN, "cpu": "2"}) == digest(RUN, defaults={"cpu": "2"})


def test_jobs_that_differ_only_in_client_id_share_a_template() -> None:
    made, found = prepared([{**RUN, "clientId": str(number)} for number in range(3)])
    assert found == []
    first = made.jobs[0]
    assert all(job.spec is first.spec and job.labels is first.labels for job in made.jobs)
    assert len({job.job_id for job in made.jobs}) == 3


def test_jobs_without_a_client_id_get_ids_in_order() -> None:
    made, _ = prepared([RUN, {**RUN, "clientId": "x"}, RUN, RUN])
    fresh = [made.jobs[index].job_id for index in (0, 2, 3)]
    assert fresh == sorted(fresh)
    assert len(set(fresh)) == 3


def test_templates_are_separate_per_defaults() -> None:
    templates = JobTemplates(JobPolicy())
    amounts = [
        bytes(prepared([RUN], defaults, templates=templates)[0].jobs[0].shape)
        for defaults in ({"cpu": "1"}, {"cpu": "2"}, None, {"cpu": "1"})
    ]
    assert amounts[0] == amounts[2] == amounts[3] != amounts[1]


def test_a_working_folder_applies_to_the_container() -> None:
    made, found = prepared([{**RUN, "workingDir": "/data/in"}], {"workingDir": "/data"})
    assert found == []
    assert msgspec.json.decode(made.jobs[0].spec)["containers"][0]["workingDir"] == "/data/in"


def test_a_default_working_folder_does_not_change_pod_specs() -> None:
    made, found = prepared([{"podSpec": SPEC}], {"workingDir": "/data"})
    assert found == []
    assert "workingDir" not in msgspec.json.decode(made.jobs[0].spec)["containers"][0]


@pytest.mark.parametrize("folder", ["data", "~/data", "/a\0b"])
def test_a_working_folder_is_an_absolute_path(folder: str) -> None:
    _, found = prepared([{**RUN, "workingDir": folder}])
    assert found == [FieldError("/jobs/0/workingDir", "is not an absolute path")]


@pytest.mark.parametrize(
    ("retry", "categories"),
    [
        ({"limit": 2}, job_terms.RETRYABLE),
        ({"limit": 2, "on": []}, ()),
        ({"on": ["oom"]}, ("oom",)),
    ],
)
def test_retries_without_categories_apply_to_all_retryable_failures(
    retry: object, categories: tuple[str, ...]
) -> None:
    made, found = prepared([{**RUN, "retry": retry}])
    assert found == []
    policy = made.jobs[0].retry
    assert policy is not None
    assert policy.on == categories
    assert "start" not in policy.on


def some(**fields: tuple[object, ...]) -> st.SearchStrategy[dict[str, object]]:
    """Objects with any of these fields."""
    return st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in fields.items()})


containers = some(
    name=("main", "x"),
    image=("i", "j"),
    args=(["1"], ["2"]),
    resources=(None, {}, {"requests": {"cpu": "1"}}, {"limits": {"cpu": "2", "memory": "1Gi"}}),
)
specs = st.builds(
    lambda pods, rest: {**rest, "containers": pods},
    st.lists(containers, max_size=2),
    some(
        nodeSelector=({"a": "b"}, {}),
        priorityClassName=("low", "odd"),
        tolerations=([{"key": "k", "operator": "Exists"}], None),
        terminationGracePeriodSeconds=(0, 7, 999),
        activeDeadlineSeconds=(60,),
    ),
)
words = some(
    priority=(0, 3),
    priorityClass=("low", "high", "odd"),
    labels=({"a": "1"}, {"a": "2", "b": "1"}, {"bad key": ""}),
    maxRuntimeSeconds=(60, 120),
    gang=({"name": "g", "size": 9}, {"name": "g"}),
    startAfter=("2027-01-31T12:00:00Z", "soon"),
    namespace=("n", "N"),
    cpu=("1", 2, "x"),
    gpu=(1,),
    command=(["a"], ["b"], []),
    env=({"A": "1"}, {"A": "2", "B": ""}, {"=": ""}),
    workingDir=("/work", "relative"),
)
any_job = st.one_of(
    words, st.builds(lambda job, spec: {**job, "podSpec": spec}, some(priority=(0, 3)), specs)
)
TEMPLATES = JobTemplates(JobPolicy())
"""Of all examples: what one left there must not show in another."""


@given(any_job, st.none() | any_job)
def test_the_template_cache_does_not_change_the_result(
    job: dict[str, object], defaults: dict[str, object] | None
) -> None:
    fresh, found = prepared([job], defaults)
    prepared_jobs, said = prepared([job], defaults, templates=TEMPLATES)
    assert found == said
    assert found or fresh == prepared_jobs


def test_the_number_of_dependencies_is_limited() -> None:
    settings = JobPolicy(limits=Limits(after_max=3))
    made, found = prepared([{**RUN, "after": ["a", "b"]}] * 2, settings=settings)
    assert [error.pointer for error in found] == ["/jobs"]
    assert made.outside == {}


PORTS = {"ports": [{"port": 80}]}
SERVING = {"services": [{"name": "web", "spec": PORTS}]}


def ingress_to(service: object) -> dict[str, object]:
    path = {"path": "/", "backend": {"service": {"name": service}}}
    return {"name": "in", "spec": {"rules": [{"http": {"paths": [path]}}]}}


def test_services_and_ingresses_are_part_of_the_event_and_of_the_digest() -> None:
    ingresses = [{**ingress_to("web"), "annotations": {"example.com/class": "public"}}]
    made, found = prepared([{**RUN, **SERVING, "ingresses": ingresses}])
    assert found == []
    (service,), (ingress,) = made.jobs[0].services, made.jobs[0].ingresses
    assert (service.name, msgspec.json.decode(service.spec)) == ("web", PORTS)
    assert msgspec.json.decode(ingress.spec) == ingresses[0]["spec"]
    assert ingress.annotations == {"example.com/class": "public"}
    assert len({digest(RUN), digest({**RUN, **SERVING}), made.jobs[0].digest}) == 3
    assert digest({**RUN, **SERVING}) == digest(RUN, defaults=SERVING)


def test_specs_of_services_and_ingresses_that_are_no_objects_of_kubernetes_are_left_to_it() -> None:
    strange = [{"rules": [1, {"http": 2}, {"http": {"paths": {}}}]}, {"defaultBackend": []}, {}]
    ingresses = [{"name": f"i{at}", "spec": spec} for at, spec in enumerate(strange)]
    _, found = prepared([{**RUN, "ingresses": ingresses}])
    assert found == []


DEEP: dict[str, object] = {}
for _ in range(100):
    DEEP = {"x": DEEP}

REFUSED_OBJECTS = {
    "/services/0/name": {"services": [{"name": "1web", "spec": {}}]},
    "/services/1/name": {"services": [{"name": "web", "spec": {}}] * 2},
    "/services/0/spec": {"services": [{"name": "web"}]},
    "/services/0/spec/selector": {"services": [{"name": "web", "spec": {"selector": {"a": "b"}}}]},
    "/services": {"services": [{"name": "web", "spec": {"x": "y" * 70_000}}]},
    "/ingresses/0/name": {"ingresses": [{"spec": {}}]},
    "/ingresses/0/annotations/a b": {
        "ingresses": [{"name": "a", "spec": {}, "annotations": {"a b": ""}}]
    },
    "/ingresses/0/spec": {"ingresses": [{"name": "a", "spec": DEEP}]},
    "/ingresses/0/spec/rules/0/http/paths/0/backend/service/name": {
        **SERVING,
        "ingresses": [ingress_to("wbe")],
    },
    "/ingresses/0/spec/defaultBackend/service/name": {
        "ingresses": [{"name": "a", "spec": {"defaultBackend": {"service": {"name": ["web"]}}}}]
    },
}


@pytest.mark.parametrize(("pointer", "fields"), REFUSED_OBJECTS.items(), ids=REFUSED_OBJECTS.keys())
def test_errors_of_services_and_ingresses_are_named(
    pointer: str, fields: dict[str, object]
) -> None:
    _, found = prepared([{**RUN, **fields}])
    assert [error.pointer for error in found] == [f"/jobs/0{pointer}"]


def gang(**more: object) -> dict[str, object]:
    return {**RUN, "gang": {"name": "g", "size": 3, **more}}


def test_members_of_a_complete_gang_are_numbered_in_order() -> None:
    made, found = prepared([gang(), RUN, gang(), gang()])
    assert found == []
    assert [job.gang.member for job in made.jobs if job.gang is not None] == [0, 1, 2]
    assert len({job.digest for job in made.jobs if job.gang is not None}) == 1


def test_members_of_a_partial_gang_have_their_stated_number_or_none() -> None:
    made, found = prepared([gang(), gang()])
    assert found == []
    assert [job.gang and job.gang.member for job in made.jobs] == [None, None]
    made, found = prepared([gang(member=2), gang(member=0)])
    assert found == []
    assert [job.gang and job.gang.member for job in made.jobs] == [2, 0]


NUMBERS = {
    "one number twice": ([1, 1, 0], ["/jobs/0", "/jobs/1"]),
    "a number beyond the last": ([0, 1, 3], ["/jobs/2"]),
    "a number of some alone": ([0, None, 1], ["/jobs/1"]),
}


@pytest.mark.parametrize(("numbers", "places"), NUMBERS.values(), ids=NUMBERS.keys())
def test_conflicting_member_numbers_are_reported(
    numbers: list[int | None], places: list[str]
) -> None:
    _, found = prepared([gang(member=number) for number in numbers])
    assert [error.pointer for error in found] == [f"{place}/gang/member" for place in places]


def test_a_job_with_a_gpu_has_the_longer_runtime_limit() -> None:
    made, _ = prepared([RUN, {**RUN, "gpu": 1}, {**RUN, "gpu": 1, "maxRuntimeSeconds": 60}])
    assert [job.runtime_s_max for job in made.jobs] == [72 * 3600, 336 * 3600, 60]


def test_a_checkpoint_interval_is_read_from_its_annotation() -> None:
    name = "fairlead.dev/checkpoint-interval"
    made, _ = prepared([{**RUN, "annotations": {name: "600"}}])
    assert made.jobs[0].checkpoint_s == 600
    _, found = prepared([{**RUN, "annotations": {name: "soon"}}])
    assert [error.pointer for error in found] == [
        "/jobs/0/annotations/fairlead.dev~1checkpoint-interval"
    ]


def test_what_many_jobs_share_is_limited_before_each_of_them_is_made() -> None:
    spec = {"x": [1] * 40_000}
    for defaults, pointer in (
        ({"env": {"A": "x" * JOB_BYTES_MAX}}, "/defaults"),
        ({"services": [{"name": "web", "spec": spec}]}, "/defaults/services"),
    ):
        with pytest.raises(Problem) as refused:
            prepared([RUN] * 2, defaults)
        assert [error.pointer for error in refused.value.field_errors] == [pointer]


def test_a_job_is_limited_in_size() -> None:
    _, found = prepared([RUN, {**RUN, "env": {"A": "x" * JOB_BYTES_MAX}}])
    (error,) = found
    assert error.pointer == "/jobs/1"
    assert error.detail.endswith("at most 1048576 are allowed")


def test_jobs_that_are_too_large_together_are_refused_at_the_first_that_exceeds_the_limit() -> None:
    given = JobPolicy(limits=Limits(events_bytes_max=100_000))
    job = {"podSpec": {"containers": [{"args": ["x" * 9_000]}]}}
    body = msgspec.json.encode({"queue": "q", "jobSet": "s", "jobs": [job] * 10 * STEP_JOBS})
    request = msgspec.json.decode(body, type=Submission)
    templates = JobTemplates(given)
    steps = SubmissionPreparation(request, [], templates, given.limits, None).make_templates()
    with pytest.raises(Problem, match="more than 100000 bytes"):
        next(steps)


def test_jobs_with_a_large_shared_pod_spec_are_limited_by_event_bytes() -> None:
    settings = JobPolicy(limits=Limits(events_bytes_max=100_000))
    defaults = {"podSpec": {"containers": [{"args": ["x" * 9_000]}]}}
    assert prepared([{}] * 9, defaults, settings)[1] == []
    with pytest.raises(Problem) as refused:
        prepared([{}] * 20, defaults, settings)
    assert refused.value.slug == "too-large"
