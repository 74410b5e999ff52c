"""What is wrong with a request is said, all of it, and nothing of the request is done."""

import gzip
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.integration.submit.submit_server import Answer, Served, served


@pytest.fixture
async def submit(database: str) -> AsyncIterator[Served]:
    async with served(database) as made:
        yield made


def errors(answer: Answer) -> dict[str, str]:
    """pointer -> detail of every error that the answer tells."""
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    return {error["pointer"]: error["detail"] for error in problem.get("errors", [])}


RUN = {"command": ["true"]}

ONE_JOB = {
    "an unknown field": ({**RUN, "colour": 1}, "/jobs/0/colour"),
    "a field of the wrong type": ({**RUN, "priority": "high"}, "/jobs/0/priority"),
    "a wrong type far inside": (
        {"podSpec": {"containers": [{"resources": {"requests": {"cpu": []}}}]}},
        "/jobs/0/podSpec/containers/0/resources/requests/cpu",
    ),
    "a quantity that is none": ({**RUN, "cpu": "1.5x"}, "/jobs/0/cpu"),
    "a quantity that is none, in a pod spec": (
        {"podSpec": {"containers": [{"resources": {"requests": {"cpu": "1.5x"}}}]}},
        "/jobs/0/podSpec/containers/0/resources/requests/cpu",
    ),
    "negative memory": ({**RUN, "memory": "-1Gi"}, "/jobs/0/memory"),
    "a negative number of GPUs": ({**RUN, "gpu": -1}, "/jobs/0/gpu"),
    "more than any machine has": ({**RUN, "memory": "1e30"}, "/jobs/0/memory"),
    "a limit below the request": (
        {
            "podSpec": {
                "containers": [{"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}]
            }
        },
        "/jobs/0/podSpec/containers/0/resources/limits/cpu",
    ),
    "nothing to run": ({}, "/jobs/0"),
    "no container": ({"podSpec": {"containers": []}}, "/jobs/0/podSpec/containers"),
    "a pod spec that is no object": ({"podSpec": 5}, "/jobs/0/podSpec"),
    "a pod spec beside a command": (
        {**RUN, "podSpec": {"containers": [{"name": "main"}]}},
        "/jobs/0/command",
    ),
    "an unknown class": ({**RUN, "priorityClass": "royal"}, "/jobs/0/priorityClass"),
    "an unknown class in the pod spec": (
        {"podSpec": {"containers": [{}], "priorityClassName": "royal"}},
        "/jobs/0/podSpec/priorityClassName",
    ),
    "too long a grace period": (
        {"podSpec": {"containers": [{}], "terminationGracePeriodSeconds": 301}},
        "/jobs/0/podSpec/terminationGracePeriodSeconds",
    ),
    "a number too large for a priority": ({**RUN, "priority": 10**30}, "/jobs/0/priority"),
    "an integer that no float can hold": ({**RUN, "priority": 10**400}, "/jobs/0/priority"),
    "an integer too large for a quantity": ({**RUN, "cpu": 10**400}, "/jobs/0/cpu"),
    "an integer too large for a time": ({**RUN, "startAfter": 10**400}, "/jobs/0/startAfter"),
    "an integer too large for a pod spec's grace period": (
        {"podSpec": {"containers": [{}], "terminationGracePeriodSeconds": 10**400}},
        "/jobs/0/podSpec/terminationGracePeriodSeconds",
    ),
    "an integer too large for a text": ({**RUN, "command": [10**400]}, "/jobs/0/command/0"),
    "an unknown word": ({**RUN, "onPreemption": "cry"}, "/jobs/0/onPreemption"),
    "a time without a zone": ({**RUN, "startAfter": "2026-01-01T00:00"}, "/jobs/0/startAfter"),
    "a NUL in a label": ({**RUN, "labels": {"a": "x\0"}}, "/jobs/0/labels/a"),
    "a NUL in a command": ({"command": ["a\0b"]}, "/jobs/0/command/0"),
    "a NUL in what passes through": (
        {"podSpec": {"containers": [{"args": ["a\0"]}]}},
        "/jobs/0/podSpec/containers/0/args/0",
    ),
    "a label that Kubernetes would refuse": (
        {**RUN, "labels": {"a b": "x"}},
        "/jobs/0/labels/a b",
    ),
    "a label of Fairlead's own": (
        {**RUN, "labels": {"fairlead.dev/queue": "x"}},
        "/jobs/0/labels/fairlead.dev~1queue",
    ),
    "a client id that is too long": ({**RUN, "clientId": "x" * 129}, "/jobs/0/clientId"),
    "a client id with a line break": ({**RUN, "clientId": "a\nb"}, "/jobs/0/clientId"),
    "a pod spec of more than 64 KiB": (
        {"podSpec": {"containers": [{"args": ["x" * 65_536]}]}},
        "/jobs/0/podSpec",
    ),
    "a pod spec nested without end": (
        {"podSpec": {"containers": [{}], "deep": msgspec.Raw(b"[" * 200 + b"]" * 200)}},
        "/jobs/0/podSpec",
    ),
    "a job that waits for itself": ({**RUN, "clientId": "a", "after": ["a"]}, "/jobs/0/after/0"),
    "a gang larger than its members agree": (
        {**RUN, "gang": {"name": "g", "size": 2, "minSize": 3}},
        "/jobs/0/gang/minSize",
    ),
    "a gang without a size": ({**RUN, "gang": {"name": "g"}}, "/jobs/0/gang/size"),
    "services": ({**RUN, "services": [{"name": "web"}]}, "/jobs/0/services/0/spec"),
}


@pytest.mark.parametrize(("job", "pointer"), ONE_JOB.values(), ids=ONE_JOB.keys())
async def test_an_invalid_job_is_refused_with_a_pointer(
    submit: Served, job: object, pointer: str
) -> None:
    answer = await submit.submit([job])
    assert answer.status_code == 422, answer.text
    assert list(errors(answer)) == [pointer]
    assert await submit.events() == []


BODIES = {
    "no JSON": (b"{", 400),
    "nothing": (b"", 400),
    "NaN": (b'{"queue": NaN}', 400),
    "a number beyond all": (b'{"queue": 1e999}', 400),
    "an unpaired surrogate": (b'{"queue": "\\ud800"}', 400),
    "what is not UTF-8": (b'{"queue": "\xff"}', 400),
    "what is not UTF-8, in a pod spec": (
        b'{"queue": "q", "jobSet": "s", "jobs": [{"podSpec": {"a": "\xff"}}]}',
        422,
    ),
    "deep nesting": (b"[" * 100_000, 400),
    "deep nesting in a pod spec": (
        b'{"queue": "q", "jobSet": "s", "jobs": [{"podSpec": '
        + b'{"a":' * 20_000
        + b"1"
        + b"}" * 20_000
        + b"}]}",
        400,
    ),
    "a list": (b"[]", 422),
    "a text": (b'"x"', 422),
    "null": (b"null", 422),
    "an empty object": (b"{}", 422),
    "a number of 10,000 digits": (b'{"queue": ' + b"9" * 10_000 + b"}", 400),
}


@pytest.mark.parametrize(("body", "status"), BODIES.values(), ids=BODIES.keys())
async def test_an_invalid_submission_body_is_refused(
    submit: Served, body: bytes, status: int
) -> None:
    answer = await submit.post("/jobs", body)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]


async def test_errors_of_all_kinds_are_listed_together(submit: Served) -> None:
    jobs = [
        {"command": ["true"], "cpu": "1.5x", "memory": "-1", "colour": 1},
        {"command": ["true"]},
        {"podSpec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}], "tolerations": 5}},
        {"command": "true", "priorityClass": "royal", "labels": {"a": 1, "b": "c d"}},
        7,
    ]
    answer = await submit.post("/jobs", {"queue": "nobody", "jobs": jobs, "more": True})
    assert answer.status_code == 422
    assert set(errors(answer)) == {
        "/more",
        "/queue",
        "/jobSet",
        "/jobs/0/colour",
        "/jobs/0/cpu",
        "/jobs/0/memory",
        "/jobs/2/podSpec/containers/0/resources/limits/cpu",
        "/jobs/2/podSpec/tolerations",
        "/jobs/3/command",
        "/jobs/3/labels/a",
        "/jobs/3/labels/b",
        "/jobs/3/priorityClass",
        "/jobs/4",
    }
    assert await submit.events() == []


async def test_an_error_in_the_defaults_is_reported_once_at_the_defaults(submit: Served) -> None:
    jobs = [{"command": ["a"]}, {"command": ["b"], "cpu": "2"}, {"command": ["c"], "memory": "x"}]
    answer = await submit.submit(jobs, defaults={"cpu": "1.5x", "pool": "-"})
    assert set(errors(answer)) == {"/defaults/cpu", "/defaults/pool", "/jobs/2/memory"}


async def test_an_unknown_queue_is_refused(submit: Served) -> None:
    answer = await submit.post("/jobs", {"queue": "nobody", "jobSet": "s", "jobs": [RUN]})
    assert (answer.status_code, list(errors(answer))) == (422, ["/queue"])


async def test_the_same_client_id_twice_is_refused(submit: Served) -> None:
    answer = await submit.submit([{**RUN, "clientId": name} for name in ("a", "b", "a")])
    assert answer.status_code == 422
    assert list(errors(answer)) == ["/jobs/0/clientId", "/jobs/2/clientId"]


async def test_too_many_jobs_are_refused(submit: Served) -> None:
    answer = await submit.submit([RUN] * 10_001)
    assert (answer.status_code, list(errors(answer))) == (422, ["/jobs"])
    assert (await submit.submit([RUN] * 10_000)).status_code == 200


async def test_an_empty_job_list_is_refused(submit: Served) -> None:
    assert list(errors(await submit.submit([]))) == ["/jobs"]


async def test_a_body_beyond_the_limit_is_refused_before_it_is_read(submit: Served) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(40):
            read += 1
            yield b" " * 2**20

    url, headers = "/api/v1/jobs", {"Content-Type": "application/json"}
    answer = await submit.client.post(url, content=endless(), headers=headers)
    assert answer.status_code == 413
    answer = await submit.client.post(url, content=b" " * (40 * 2**20), headers=headers)
    assert answer.status_code == 413
    assert "33554432 bytes" in answer.json()["detail"]


async def test_a_body_above_the_limit_after_decompression_is_refused(submit: Served) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    url = "/api/v1/jobs"
    bomb = gzip.compress(b" " * (40 * 2**20))
    assert (await submit.client.post(url, content=bomb, headers=headers)).status_code == 413
    cut = gzip.compress(b'{"queue": "q"}')[:-9]
    assert (await submit.client.post(url, content=cut, headers=headers)).status_code == 400
    body = {"queue": submit.queue, "jobSet": "s", "jobs": [RUN]}
    whole = gzip.compress(msgspec.json.encode(body))
    assert (await submit.client.post(url, content=whole, headers=headers)).status_code == 200


async def test_an_unsupported_content_type_is_refused(submit: Served) -> None:
    for headers in ({"Content-Type": "text/plain"}, {"Content-Encoding": "br"}):
        sent = {"Content-Type": "application/json", **headers}
        answer = await submit.client.post("/api/v1/jobs", content=b"{}", headers=sent)
        assert answer.status_code == 415


async def test_members_of_a_gang_with_different_terms_are_refused(submit: Served) -> None:
    def member(**gang: object) -> dict[str, object]:
        return {**RUN, "gang": {"name": "g", "size": 2, **gang}}

    answer = await submit.submit([member(), member(minSize=1)])
    assert list(errors(answer)) == ["/jobs/1/gang"]
    answer = await submit.submit([member(), {**member(), "pool": "other"}])
    assert list(errors(answer)) == ["/jobs/1/pool"]
    answer = await submit.submit([member(), member(), member()])
    assert list(errors(answer)) == ["/jobs/2/gang/size"]
    assert (await submit.submit([member(), member()])).status_code == 200


async def test_a_job_must_come_after_its_dependencies(submit: Served) -> None:
    jobs = [{**RUN, "clientId": "merge", "after": ["part"]}, {**RUN, "clientId": "part"}]
    assert list(errors(await submit.submit(jobs))) == ["/jobs/0/after/0"]


ACTIONS = {
    "neither ids nor filter": ("cancel", {}, ""),
    "both": ("cancel", {"ids": [], "filter": {}}, ""),
    "no id": ("cancel", {"ids": []}, "/ids"),
    "what is no id": ("cancel", {"ids": ["x"]}, "/ids/0"),
    "an id of no partition": ("cancel", {"ids": ["z" * 28]}, "/ids/0"),
    "no queue": ("cancel", {"filter": {"jobSet": "s"}}, "/filter/queue"),
    "an unknown queue": ("preempt", {"filter": {"queue": "nobody"}}, "/filter/queue"),
    "an unknown state": ("cancel", {"filter": {"queue": "q", "states": ["X"]}}, "/filter/states/0"),
    "no priority": ("reprioritize", {"ids": ["0" * 28]}, "/priority"),
    "no ids": ("release", {}, "/ids"),
    "a reason without end": ("cancel", {"ids": ["0" * 28], "reason": "x" * 2_000}, "/reason"),
}


@pytest.mark.parametrize(("action", "body", "pointer"), ACTIONS.values(), ids=ACTIONS.keys())
async def test_an_invalid_action_is_refused_with_a_pointer(
    submit: Served, action: str, body: object, pointer: str
) -> None:
    answer = await submit.post(f"/jobs/{action}", body)
    assert answer.status_code == 422, answer.text
    assert pointer in errors(answer)


QUEUES = {
    "no name": ({}, "/name"),
    "an odd name": ({"name": "a/b"}, "/name"),
    "a weight of nothing": ({"name": "a", "weight": 0}, "/weight"),
    "a fraction above one": (
        {"name": "a", "limits": {"default": {"cpu": 2}}},
        "/limits/default/cpu",
    ),
    "half a device": (
        {"name": "a", "limits": {"default": {"nvidia.com/gpu": "0.5"}}},
        "/limits/default/nvidia.com~1gpu",
    ),
    "an amount that is none": (
        {"name": "a", "limits": {"default": {"cpu": "2x"}}},
        "/limits/default/cpu",
    ),
    "an unknown verb": (
        {"name": "a", "permissions": [{"subjects": ["me"], "verbs": ["own"]}]},
        "/permissions/0/verbs/0",
    ),
}


@pytest.mark.parametrize(("body", "pointer"), QUEUES.values(), ids=QUEUES.keys())
async def test_an_invalid_queue_is_refused_with_a_pointer(
    submit: Served, body: object, pointer: str
) -> None:
    answer = await submit.post("/queues", body)
    assert answer.status_code == 422, answer.text
    assert pointer in errors(answer)
