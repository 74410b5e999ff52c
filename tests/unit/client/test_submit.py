"""Submitting: client ids, long lists, and refusals in the middle of them."""

import pickle
from typing import Any

import msgspec
import pytest

from fairlead import Gang, Job, errors
from fairlead.calls.exchange_types import Reply
from fairlead.calls.submission_batches import JOBS_MAX, split_jobs
from fairlead.models.job_models import FieldError, Problem, SubmittedJob
from tests.unit.client.world import World, ok, problem


def accepted(first: int, count: int) -> Reply:
    jobs = [{"id": f"j{n}", "clientId": f"c{n}"} for n in range(first, first + count)]
    return ok({"position": f"p{first}", "jobs": jobs})


def sent(world: World) -> list[dict[str, Any]]:  # Any: what was sent may be of any shape
    return [msgspec.json.decode(request.body) for request in world.asked]


def test_a_job_without_a_client_id_gets_one() -> None:
    world = World(accepted(0, 2))
    world.client.submit("q", "s", [Job(command=("a",)), Job(command=("b",))])
    (body,) = sent(world)
    assert [job["clientId"] for job in body["jobs"]] == [
        "c8000000000000000-0",
        "c8000000000000000-1",
    ]
    assert (body["queue"], body["jobSet"]) == ("q", "s")


def test_a_client_id_of_the_caller_is_retained() -> None:
    world = World(accepted(0, 2))
    world.client.submit("q", "s", [Job(client_id="mine"), {"clientId": "yours"}])
    assert [job["clientId"] for job in sent(world)[0]["jobs"]] == ["mine", "yours"]


def test_absent_fields_are_not_sent() -> None:
    world = World(accepted(0, 1))
    world.client.submit("q", "s", [Job(client_id="a", command=("x",), cpu="1")])
    assert sent(world)[0]["jobs"] == [{"clientId": "a", "command": ["x"], "cpu": "1"}]


def test_a_long_list_is_sent_in_several_requests_and_returned_in_order() -> None:
    world = World(accepted(0, JOBS_MAX), accepted(JOBS_MAX, 1))
    taken: list[int] = []
    done = world.client.submit("q", "s", [Job()] * (JOBS_MAX + 1), on_progress=taken.append)
    assert taken == [JOBS_MAX, JOBS_MAX + 1]
    assert [len(body["jobs"]) for body in sent(world)] == [JOBS_MAX, 1]
    assert [job.id for job in done.jobs] == [f"j{n}" for n in range(JOBS_MAX + 1)]
    assert done.position == f"p{JOBS_MAX}"


def test_large_jobs_are_cut_by_their_bytes() -> None:
    heavy = Job(env={"X": "x" * 6 * 2**20})
    assert [len(batch.jobs) for batch in split_jobs([heavy] * 5, "n")] == [2, 2, 1]


def test_adjacent_members_of_a_gang_are_sent_in_one_request() -> None:
    gang = Gang(name="g", size=10)
    jobs = (
        [Job()] * (JOBS_MAX - 3) + [Job(gang=gang)] * 5 + [{"gang": {"name": "g", "size": 10}}] * 5
    )
    assert [len(batch.jobs) for batch in split_jobs([*jobs, Job()], "n")] == [JOBS_MAX + 7, 1]


def test_a_check_leaves_out_what_jobs_wait_for_in_an_earlier_request() -> None:
    """Nothing is created, so the server would refuse the client ids of that request."""
    jobs: list[Job | dict[str, object]] = [Job(client_id=f"j{n}") for n in range(JOBS_MAX)]
    scan = {"count": 3, "afterCorresponding": "j1"}
    after = ["j0", "nobody", {"array": "j2"}, {"array": "other"}]
    jobs += [{"clientId": "last", "after": after, "array": scan}]
    world = World(ok({"jobs": []}), ok({"jobs": []}))
    world.client.check("q", "s", jobs)
    (last,) = sent(world)[1]["jobs"]
    assert last == {
        "clientId": "last",
        "after": ["nobody", {"array": "other"}],
        "array": {"count": 3, "afterCorresponding": None},
    }


def test_no_jobs_make_no_request() -> None:
    assert World().client.submit("q", "s", []).jobs == ()


def test_a_refusal_of_a_later_request_points_into_the_list_and_has_the_accepted_jobs() -> None:
    error = {"pointer": "/jobs/3/cpu", "detail": "no quantity"}
    world = World(accepted(0, JOBS_MAX), problem(422, "bad", [error, {"pointer": "/queue"}]))
    with pytest.raises(errors.Invalid) as caught:
        world.client.submit("q", "s", [Job()] * (JOBS_MAX + 5))
    pointers = [item.pointer for item in caught.value.problem.errors]
    assert pointers == [f"/jobs/{JOBS_MAX + 3}/cpu", "/queue"]
    assert len(caught.value.accepted) == JOBS_MAX


def test_an_item_that_is_not_a_job_raises_type_error() -> None:
    with pytest.raises(TypeError, match=r"jobs\[1\]"):
        World().client.submit("q", "s", [Job(), "echo"])  # type: ignore[list-item]


def test_an_undecodable_response_raises_unexpected_answer() -> None:
    with pytest.raises(errors.UnexpectedResponse):
        World(ok(["what"])).client.submit("q", "s", [Job()])


def test_a_refusal_without_a_problem_document_has_its_status() -> None:
    with pytest.raises(errors.Unavailable, match="upstream"):
        World(Reply(502, {}, b"upstream away")).client.queue("a")


def test_a_refusal_can_be_sent_to_another_process() -> None:
    refused = errors.build_refusal(
        Problem(status=422, detail="no", errors=(FieldError(pointer="/a", detail="is b"),)),
        (SubmittedJob(id="0a"),),
    )
    refused.add_note("try c")
    found = pickle.loads(pickle.dumps(refused))
    assert (type(found), str(found)) == (errors.Invalid, str(refused))
    assert (found.problem, found.accepted) == (refused.problem, refused.accepted)
    assert found.__notes__ == ["try c"]


def test_cancelling_many_ids_adds_up() -> None:
    world = World(ok({"position": "p", "matched": 1000}), ok({"position": "q", "matched": 5}))
    done = world.client.cancel([f"j{n}" for n in range(1005)], reason="why")
    assert (done.position, done.matched) == ("q", 1005)
    assert [len(body["ids"]) for body in sent(world)] == [1000, 5]
