"""Which nodes an executor avoids: those on which runs in a row failed to start."""

import msgspec
import pytest

from fairlead_common.domain.records.clusters import Avoidance, Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.domain import pods, start_failures
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.domain.start_failures import StartFailures
from tests.unit.executor.build import run

RETURNED = pods.returned("the node refused the pod: OutOfcpu")
NO_IMAGE = pods.failed(FailureCategory.IMAGE_PULL, "no image")
ONE, TWO = ("q", "one"), ("q", "two")


def ended(end: End, node: str = "n0", started_ms: int = 0) -> Pod:
    return Pod(run("a"), Phase.ENDED, node, started_ms=started_ms, ended_ms=5, end=end)


def after(
    *ends: tuple[End, str, tuple[str, str]], failures_min: int = 3, now_ms: int = 1_000
) -> StartFailures:
    """Failures of these ends, each on a node and of a job set, at one time."""
    failures = StartFailures(failures_min, avoid_s=60)
    for end, node, job_set in ends:
        failures.note_end(ended(end, node), job_set, now_ms)
    return failures


def test_a_node_that_returned_three_runs_in_a_row_is_avoided_for_the_stated_time() -> None:
    failures = after((RETURNED, "n0", ONE), (RETURNED, "n0", ONE))
    assert not failures.find_avoided(1_000)
    failures.note_end(ended(RETURNED), ONE, 2_000)
    avoided = failures.find_avoided(2_000)
    assert avoided == {"n0": Avoidance(3, RETURNED.reason, 62_000)}
    assert failures.next_ms == 62_000
    assert failures.find_avoided(61_999) is avoided
    assert not failures.find_avoided(62_000)
    assert failures.next_ms is None


def test_after_that_time_one_more_failure_is_enough() -> None:
    failures = after(*[(RETURNED, "n0", ONE)] * 3)
    failures.note_end(ended(RETURNED), ONE, 100_000)
    assert failures.find_avoided(100_000)["n0"].failures == 4


def test_a_start_ends_the_avoidance_and_the_row() -> None:
    failures = after(*[(RETURNED, "n0", ONE)] * 3)
    failures.note_start("n0", TWO)
    assert not failures.find_avoided(1_000)
    failures.note_end(ended(RETURNED), ONE, 1_000)
    assert not failures.find_avoided(1_000)


@pytest.mark.parametrize(
    "pod",
    [
        ended(RETURNED, started_ms=3),
        ended(RETURNED, node=""),
        ended(pods.failed(FailureCategory.ADMISSION, "x")),
        ended(pods.stopped("cancelled")),
        ended(pods.lost("restarted")),
    ],
)
def test_ends_that_are_not_failures_of_a_node_to_start_do_not_count(pod: Pod) -> None:
    failures = StartFailures(1, 60)
    failures.note_end(pod, ONE, 1_000)
    assert not failures.find_avoided(1_000)


def test_an_image_that_cannot_be_pulled_anywhere_does_not_count() -> None:
    assert not after(*[(NO_IMAGE, "n0", ONE)] * 9).find_avoided(1_000)


def test_an_image_that_another_node_can_pull_counts() -> None:
    failures = StartFailures(3, 60)
    failures.note_start("n1", ONE)
    for _ in range(3):
        failures.note_end(ended(NO_IMAGE), ONE, 1_000)
    assert failures.find_avoided(1_000).keys() == {"n0"}


def test_a_job_set_whose_runs_fail_on_two_nodes_is_held_against_neither() -> None:
    failures = after(*[(RETURNED, "n0", ONE)] * 3, (RETURNED, "n1", ONE))
    assert not failures.find_avoided(1_000)
    failures.note_end(ended(RETURNED), TWO, 1_000)
    assert not failures.find_avoided(1_000)


def test_a_job_set_that_has_started_since_is_held_against_a_node_again() -> None:
    failures = after((RETURNED, "n0", ONE), (RETURNED, "n1", ONE))
    failures.note_start("n2", ONE)
    for _ in range(3):
        failures.note_end(ended(RETURNED), ONE, 1_000)
    assert failures.find_avoided(1_000).keys() == {"n0"}


def test_failures_of_several_job_sets_add_up() -> None:
    failures = after((RETURNED, "n0", ONE), (RETURNED, "n0", TWO), (RETURNED, "n0", ("p", "one")))
    assert failures.find_avoided(1_000).keys() == {"n0"}


def test_no_node_is_avoided_when_it_is_switched_off() -> None:
    assert not after(*[(RETURNED, "n0", ONE)] * 9, failures_min=0).find_avoided(1_000)


def test_a_new_executor_continues_to_avoid_the_node() -> None:
    before = after(*[(RETURNED, "n0", ONE)] * 3)
    node = Node(executor="e", name="n0", allocatable={})
    reported = start_failures.mark_avoided(node, before.find_avoided(1_000))
    assert reported.unschedulable
    failures = StartFailures(3, 60)
    failures.restore([reported, msgspec.structs.replace(node, name="n1")])
    assert start_failures.mark_avoided(node, failures.find_avoided(1_000)) == reported


def test_a_node_that_no_longer_exists_is_forgotten() -> None:
    failures = after(*[(RETURNED, "n0", ONE)] * 3)
    failures.retain({"n1"})
    assert not failures.find_avoided(1_000)


def test_the_number_of_remembered_job_sets_is_bounded() -> None:
    failures = StartFailures(3, 60)
    failures.note_start("n1", ONE)
    for number in range(start_failures.JOB_SETS_MAX):
        failures.note_start("n1", ("q", str(number)))
    for _ in range(3):
        failures.note_end(ended(NO_IMAGE), ONE, 1_000)
    assert not failures.find_avoided(1_000)
