"""The names of a task's jobs: the same in every try, and different for every task."""

import pytest

from fairlead import AfterArray, Job
from fairlead_airflow.jobs.job_names import (
    TaskKey,
    name_job_set,
    name_jobs,
    renew_jobs,
    renew_reported_job,
)

KEY = TaskKey("etl", "manual__2026-01-01T00:00:00+00:00", "fit")


def names(jobs: list[Job]) -> list[str | None]:
    """Their client ids."""
    return [job.client_id for job in jobs]


def test_mapped_instances_share_a_job_set_and_have_jobs_of_their_own() -> None:
    mapped = [KEY._replace(map_index=index) for index in range(3)]
    assert len({name_job_set(key) for key in mapped}) == 1
    assert [names(name_jobs(key, [Job()])) for key in mapped] == [["fit.0"], ["fit.1"], ["fit.2"]]


def test_a_cleared_task_gets_new_jobs() -> None:
    assert names(name_jobs(KEY._replace(first_try=3), [Job()])) == ["fit@3"]


def test_dependencies_within_the_task_keep_their_meaning() -> None:
    after = ("a", "other", AfterArray(array="a"))
    made = name_jobs(KEY, [Job(client_id="a"), Job(client_id="b", after=after)])
    assert names(made) == ["fit.a", "fit.b"]
    assert made[1].after == ("fit.a", "other", AfterArray(array="fit.a"))


def test_only_jobs_without_success_are_renewed() -> None:
    jobs = name_jobs(KEY, [Job(client_id="a"), Job(client_id="b", after=("a",)), Job()])
    states = {"fit.a": "FAILED", "fit.a~2": "CANCELLED", "fit.b": "SUCCEEDED", "fit.2": "RUNNING"}
    renewed = renew_jobs(jobs, states)
    assert names(renewed) == ["fit.a~3", "fit.b", "fit.2"]
    assert renewed[1].after == ("fit.a~3",)


@pytest.mark.parametrize(
    ("states", "reported", "name"),
    [
        (["RUNNING"], None, "fit"),
        (["SUCCEEDED"], None, "fit"),
        (["SUCCEEDED"], "fit", "fit~2"),
        (["FAILED"], None, "fit~2"),
        (["FAILED", "SUCCEEDED"], None, "fit~2"),
        (["SUCCEEDED", "CANCELLED"], "fit", "fit~3"),
        (["SUCCEEDED", "SUCCEEDED"], "fit", "fit~2"),
        (["SUCCEEDED", "SUCCEEDED"], "fit~2", "fit~3"),
    ],
)
def test_a_job_is_renewed_if_it_has_no_success_or_if_that_was_reported(
    states: list[str], reported: str | None, name: str
) -> None:
    attempts = ("fit", "fit~2", "fit~3")
    job = Job(client_id="fit")
    found = renew_reported_job(job, dict(zip(attempts, states, strict=False)), reported)
    assert found.client_id == name


def test_long_names_are_shortened_and_stay_different() -> None:
    long = [KEY._replace(task_id="t" * 250 + end, run_id="r" * 250) for end in "ab"]
    job_sets = {name_job_set(key) for key in long}
    clients = {names(name_jobs(key, [Job()]))[0] or "" for key in long}
    assert {len(name) for name in job_sets} == {256}
    assert len(job_sets) == len(clients) == 2
    assert max(map(len, clients)) <= 60
