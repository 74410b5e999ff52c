"""Secret variables of jobs: what a submission makes of them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.secret_values import Keyring
from fairlead_submit.domain import secret_variables
from fairlead_submit.domain.jobs.job_templates import JobTemplate, JobTemplates
from fairlead_submit.domain.policy import JobPolicy
from fairlead_submit.domain.request_types import EnvValue, Job
from fairlead_submit.domain.secret_variables import QueueSecrets, may_have_secrets

RING = Keyring("a key")
STORED = RING.seal("q", "stored")
SECRETS = QueueSecrets(RING, "q", {"s": {"k": STORED}})


def template(job: dict[str, Any], secrets: QueueSecrets = SECRETS) -> JobTemplate:
    """Of a job as it is in a request. `Any`: JSON."""
    made = JobTemplates(JobPolicy())
    read = msgspec.json.decode(msgspec.json.encode({"command": ["x"], **job}), type=Job)
    return made.get(read, made.make_shared_terms("q", None, secrets))


def env_of(made: JobTemplate) -> list[dict[str, Any]]:
    """The variables of the only container."""
    assert not made.errors, made.errors
    found: list[dict[str, Any]] = msgspec.json.decode(made.event.spec)["containers"][0]["env"]
    return found


REFERENCE = {"secretKeyRef": {"name": "s", "key": "k"}}
INLINE = {"name": "A", "sealed": RING.seal("q", "hidden")}
REFERRING = {"name": "A", "valueFrom": REFERENCE, "sealed": STORED}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"A": {"value": "hidden", "secret": True}}, INLINE),
        ([{"name": "A", "value": "hidden", "secret": True}], INLINE),
        ({"A": {"secretRef": {"name": "s", "key": "k"}}}, REFERRING),
        ({"A": {"valueFrom": {"secretRef": {"name": "s", "key": "k"}}}}, REFERRING),
        ([{"name": "A", "valueFrom": REFERENCE}], REFERRING),
        ({"A": {"value": "open", "secret": False}}, {"name": "A", "value": "open"}),
        ({"A": "open"}, {"name": "A", "value": "open"}),
    ],
)
def test_each_form_becomes_a_sealed_variable(env: object, expected: object) -> None:
    assert env_of(template({"env": env})) == [expected]
    if isinstance(env, list):
        pod = {"containers": [{"command": ["x"], "env": env}]}
        assert env_of(template({"command": None, "podSpec": pod})) == [expected]


def test_the_digest_of_a_job_covers_its_secret_values() -> None:
    def digest(value: str) -> str:
        return template({"env": {"A": {"value": value, "secret": True}}}).event.digest

    assert digest("x") == digest("x") != digest("y")


def test_a_changed_secret_does_not_change_the_digest_of_a_reference() -> None:
    changed = QueueSecrets(RING, "q", {"s": {"k": RING.seal("q", "new")}})
    job = {"env": {"A": {"valueFrom": REFERENCE}}}
    old, new = template(job), template(job, changed)
    assert old.event.digest == new.event.digest
    assert bytes(old.event.spec) != bytes(new.event.spec)


@pytest.mark.parametrize(
    ("env", "pointer"),
    [
        ({"A": {"secretRef": {"name": "no", "key": "k"}}}, "/env/A/valueFrom/secretKeyRef"),
        ([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no"}}}],
         "/env/0/valueFrom/secretKeyRef"),
        ({"A": {"secret": True}}, "/env/A/value"),
    ],
)  # fmt: skip
def test_an_invalid_secret_is_reported_with_a_pointer(env: object, pointer: str) -> None:
    assert [error.pointer for error in template({"env": env}).errors] == [pointer]


def test_a_sealed_text_of_another_job_is_not_accepted() -> None:
    text = b'{"podSpec": {"containers": [{"env": [{"name": "A", "\\u0073ealed": "1.a.b"}]}]}}'
    made = JobTemplates(JobPolicy())
    job = msgspec.json.decode(text, type=Job)
    found = made.get(job, made.make_shared_terms("q", None, SECRETS)).errors
    assert FieldError("/podSpec/containers/0/env/0/sealed", "is not a known field") in found


def test_without_a_key_secrets_are_refused() -> None:
    keyless = QueueSecrets(Keyring(""), "q", {})
    made = template({"env": {"A": {"value": "hidden", "secret": True}}}, keyless)
    assert [error.detail for error in made.errors] == [secret_variables.NO_KEY]
    assert b"hidden" not in bytes(made.event.spec)
    assert template(
        {"env": {"A": {"value": "x", "secret": True}}}, secret_variables.NO_SECRETS
    ).errors


def test_requests_with_possible_secrets_are_found() -> None:
    assert may_have_secrets(b'{"env": {"A": {"value": "x", "secret": true}}}')
    assert may_have_secrets(b'{"podSpec": {"secretKeyRef": {}}}')
    assert may_have_secrets(b'{"podSpec": {"sealed": 1}}')
    assert may_have_secrets(b'{"podSpec": {"\\u0073ecretRef": 1}}')
    assert not may_have_secrets(b'{"env": {"A": {"value": "x"}}}')
    assert not may_have_secrets(b'{"podSpec": {"securityContext": {}}}')


TEXTS = st.one_of(
    st.text(max_size=8), st.sampled_from(["secret", "sealed", "secretRef", "secretKeyRef", '"se'])
)
VALUES = st.one_of(TEXTS, st.builds(EnvValue, value=TEXTS, secret=st.none() | st.booleans()))


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_jobs_of_a_request_without_possible_secrets_have_none(
    env: dict[str, str | EnvValue],
) -> None:
    body = msgspec.json.encode(Job(env=env))
    entries = secret_variables.make_entries(env)
    text = msgspec.json.encode(entries, order="deterministic")
    assert may_have_secrets(body) or not secret_variables.may_contain_secrets(text)


def test_a_resubmitted_job_keeps_values_and_renews_references() -> None:
    env = {"A": {"value": "hidden", "secret": True}, "B": {"valueFrom": REFERENCE}}
    spec = bytes(template({"env": env}).event.spec)
    new = RING.seal("q", "new")
    again = secret_variables.refresh_secrets(spec, QueueSecrets(RING, "q", {"s": {"k": new}}))
    assert isinstance(again, bytes)
    sealed = [item["sealed"] for item in msgspec.json.decode(again)["containers"][0]["env"]]
    assert sealed == [RING.seal("q", "hidden"), new]
    gone = secret_variables.refresh_secrets(spec, QueueSecrets(RING, "q", {}))
    assert isinstance(gone, str)
    assert "no secret 's'" in gone.replace('"', "'")
    other = secret_variables.refresh_secrets(spec, QueueSecrets(RING, "other", {"s": {"k": new}}))
    assert isinstance(other, str)
    assert "another queue" in other
    assert secret_variables.refresh_secrets(b"{}", secret_variables.NO_SECRETS) == b"{}"


@pytest.mark.parametrize("optional", [{}, {"optional": True}])
def test_other_references_of_a_pod_spec_are_to_the_cluster_if_settings_say_so(
    optional: dict[str, bool],
) -> None:
    reference = {"name": "elsewhere", "key": "k", **optional}
    variables = [
        {"name": "A", "valueFrom": {"secretKeyRef": reference}},
        {"name": "B", "valueFrom": REFERENCE},
    ]
    found: list[FieldError] = []
    document = {"containers": [{"env": variables}]}
    secret_variables.resolve_references(document, SECRETS, found, of_cluster=True)
    assert found == []
    first, second = document["containers"][0]["env"]
    assert first == {"name": "A", "valueFrom": {"secretKeyRef": reference}}
    assert second["sealed"] == STORED
