"""Asking something of jobs that exist."""

import msgspec
import pytest

from fairlead import Action, Filter
from fairlead.blocking import job_action_methods
from fairlead.models.job_models import Queue
from tests.unit.client.world import World, ok

PROGRESS = {"action": "a", "kind": "resubmit", "queue": "q", "jobSet": "t", "total": 2, "made": 0}


def test_a_filter_is_sent_unchanged() -> None:
    world = World(ok({"position": "p", "matched": 3}))
    where = Filter(queue="q", states=("FAILED",), labels={"a": "b"})
    assert world.client.preempt(where, reason="why").matched == 3
    assert world.bodies() == [
        {
            "filter": {"queue": "q", "states": ["FAILED"], "labels": {"a": "b"}},
            "reason": "why",
        }
    ]
    assert world.asked[0].query == ()


def test_a_text_instead_of_a_list_is_refused() -> None:
    client = World().client
    for call in (
        lambda: client.cancel("0a"),
        lambda: client.resubmit("0a", "t"),
        lambda: client.release("0a"),
        lambda: client.wait_jobs("0a"),
        lambda: client.create_token("t", "admin"),
    ):
        with pytest.raises(TypeError, match="must be a list of strings"):
            call()
    with pytest.raises(TypeError, match="states must be a list"):
        Filter(queue="q", states="FAILED")  # type: ignore[arg-type]  # as a script would


def test_a_dry_run_names_some_of_the_jobs() -> None:
    sample = [{"id": "0a", "jobSet": "s", "state": "QUEUED"}]
    world = World(ok({"position": None, "matched": 1, "sample": sample}))
    found = world.client.reprioritize(["0a"], 5, dry_run=True)
    assert (found.position, found.sample[0].job_set) == (None, "s")
    assert world.asked[0].query == (("dryRun", "true"),)
    assert world.bodies() == [{"ids": ["0a"], "priority": 5, "reason": ""}]


def test_a_resubmission_has_a_client_id_so_that_it_can_be_repeated() -> None:
    world = World(ok({"action": "a", "total": 2}))
    assert world.client.resubmit(["0a", "0b"], "t").action == "a"
    assert world.bodies() == [{"ids": ["0a", "0b"], "jobSet": "t", "clientId": "8000000000000000"}]
    assert world.asked[0].repeatable


def test_an_action_is_watched_until_it_is_done() -> None:
    states = [{**PROGRESS, "state": "RUNNING", "done": 1}, {**PROGRESS, "state": "DONE", "done": 2}]
    world = World(*map(ok, states))
    found = list(world.client.watch_action("a"))
    assert [item.done for item in found if isinstance(item, Action)] == [1, 2]
    assert world.pauses == [job_action_methods.POLL_S]


def test_a_queue_is_replaced_only_if_its_version_is_unchanged() -> None:
    world = World(ok({"name": "a", "version": 8}))
    world.client.replace_queue(Queue(name="a", version=7, weight=2.0))
    (asked,) = world.asked
    assert (asked.method, dict(asked.headers)["if-match"]) == ("PUT", '"7"')
    assert msgspec.json.decode(asked.body) == {"name": "a", "weight": 2.0}
    assert not asked.repeatable


def test_a_node_is_cordoned_in_its_cluster() -> None:
    cordon = {"executor": "c", "node": None, "cordoned": False, "position": "p"}
    world = World(ok({**cordon, "node": "n/1", "cordoned": True, "pending": True}), ok(cordon))
    made = world.client.cordon("c", "n/1", reason="why")
    assert (made.executor, made.node, made.cordoned, made.pending) == ("c", "n/1", True, True)
    ended = world.client.uncordon("c")
    assert (ended.executor, ended.node, ended.cordoned, ended.pending) == ("c", None, False, False)
    first, second = world.asked
    assert first.path == "/api/v1/executors/c/nodes/n%2F1"
    assert msgspec.json.decode(first.body) == {"cordoned": True, "reason": "why"}
    assert (second.path, msgspec.json.decode(second.body)) == (
        "/api/v1/executors/c",
        {"cordoned": False},
    )
