"""Requests about arrays that are refused, in the form of `bad_input.py`."""

from typing import Final

from tests.e2e.bad_input import ID, RUN, Case, post


def array(value: object, **more: object) -> dict[str, object]:
    """A submission of one array."""
    return {"queue": "{queue}", "jobSet": "s", "jobs": [{**RUN, **more, "array": value}]}


CASES: Final[dict[str, Case]] = {
    "no task": post("/jobs", 422, "/jobs/0/array/count", array({"count": 0})),
    "10^9 tasks": post("/jobs", 422, "/jobs/0/array/count", array({"count": 10**9})),
    "no count": post("/jobs", 422, "/jobs/0/array/count", array({})),
    "a count as text": post("/jobs", 422, "/jobs/0/array/count", array({"count": "many"})),
    "an index beyond the count": post(
        "/jobs", 422, "/jobs/0/array/indexes", array({"count": 3, "indexes": "3"})
    ),
    "ranges that overlap": post(
        "/jobs", 422, "/jobs/0/array/indexes", array({"count": 9, "indexes": "0-5,3"})
    ),
    "maxRunning 0": post(
        "/jobs", 422, "/jobs/0/array/maxRunning", array({"count": 3, "maxRunning": 0})
    ),
    "maxRunning beyond the largest array": post(
        "/jobs", 422, "/jobs/0/array/maxRunning", array({"count": 3, "maxRunning": 2**31})
    ),
    "101 jobs to wait for": post(
        "/jobs", 422, "/jobs/0/after", array({"count": 3}, after=[f"j{n}" for n in range(101)])
    ),
    "an array to follow that does not exist": post(
        "/jobs",
        422,
        "/jobs/0/array/afterCorresponding",
        array({"count": 3, "afterCorresponding": "nobody"}),
    ),
    "an array to wait for that does not exist": post(
        "/jobs", 422, "/jobs/0/after/0/array", array({"count": 3}, after=[{"array": "nobody"}])
    ),
    "an array to wait for without a name": post(
        "/jobs", 422, "/jobs/0/after/0/array", array({"count": 3}, after=[{}])
    ),
    "an array to wait for that is a number": post(
        "/jobs", 422, "/jobs/0/after/0/array", array({"count": 3}, after=[{"array": 3}])
    ),
    "an unknown field beside an array to wait for": post(
        "/jobs", 422, "/jobs/0/after/0/x", array({"count": 3}, after=[{"array": "a", "x": 1}])
    ),
    "a number to wait for": post("/jobs", 422, "/jobs/0/after/0", array({"count": 3}, after=[3])),
    "an unknown field": post("/jobs", 422, "/jobs/0/array/x", array({"count": 3, "x": 1})),
    "a gang": post(
        "/jobs", 422, "/jobs/0/gang", array({"count": 3}, gang={"name": "g", "size": 2})
    ),
    "a cancellation of an array that does not exist": post(f"/arrays/{ID}/cancel", 404, "", {}),
    "a resubmission of an array that does not exist": post(f"/arrays/{ID}/resubmit", 404, "", {}),
    "a list of arrays with an unknown parameter": Case("GET", "/arrays?x=1", 422, "/query/x"),
    "an array that does not exist": Case("GET", f"/arrays/{ID}", 404),
    "a cancellation by GET": Case("GET", f"/arrays/{ID}/cancel?dryRun=true", 405),
    "tasks of an array that does not exist": Case("GET", f"/arrays/{ID}/tasks", 404),
    "tasks in an unknown state": Case("GET", f"/arrays/{ID}/tasks?state=LOST", 422, "/query/state"),
}
