"""Groups of roles in simulations, and queues with `order: fair` (rules G)."""

from tests.unit.simulate.simulations import Result, group, job, simulate

FAIR = {"queues": {"a": {"order": "fair"}}}


def starts(result: Result, *names: str) -> list[float]:
    return [float(result.jobs[name]["start_s"]) for name in names]


def share_at(result: Result, time: float) -> float:
    """The share of queue `a` at this time: each row is valid until the next one of the queue."""
    rows = [row for row in result.rows("queues.csv") if row["queue"] == "a"]
    return [float(row["actual_share"]) for row in rows if float(row["time"]) <= time][-1]


def test_a_group_starts_with_its_minimum_and_grows_when_capacity_is_free() -> None:
    first = [job("single", cpu=2, runSeconds=20)]
    elastic = group("g", {"name": "w", "min": 2, "max": 4, "runSeconds": 60})
    result = simulate([*first, elastic])
    assert starts(result, "g/w-0", "g/w-1", "g/w-2", "g/w-3") == [0, 0, 20, 20]
    assert result.summary.states == {"SUCCEEDED": 5}


def test_a_group_has_completed_without_surplus_that_never_ran() -> None:
    elastic = group("g", {"name": "w", "min": 2, "max": 8, "runSeconds": 30})
    result = simulate([elastic, job("later", submitSeconds=5, cpu=4, runSeconds=10)])
    assert result.summary.states == {"SUCCEEDED": 9}
    assert starts(result, "later") == [30]
    assert {row["runs"] for name, row in result.jobs.items() if name > "g/w-3"} >= {"0"}


def test_a_frozen_group_grows_when_the_freeze_has_ended_although_nothing_happens() -> None:
    elastic = group("g", {"name": "w", "min": 1, "max": 3, "runSeconds": 200}, freezeSeconds=60)
    result = simulate([job("short", cpu=2, runSeconds=30), elastic])
    assert starts(result, "g/w-0", "g/w-1", "g/w-2") == [0, 0, 60]


def test_in_a_fair_queue_the_group_that_ran_most_makes_place() -> None:
    """G10; in a queue with order fifo it is the one with more surplus."""
    jobs = [
        group("old", {"name": "w", "min": 1, "max": 2, "runSeconds": 900}),
        group("young", {"name": "w", "min": 1, "max": 2, "runSeconds": 900}, submitSeconds=100),
        job("new", submitSeconds=200, runSeconds=10),
    ]
    fair = simulate(jobs, settings=FAIR)
    stopped = [name for name, row in fair.jobs.items() if row["preemptions"] != "0"]
    assert (stopped, starts(fair, "new")) == (["old/w-1"], [200])
    again = simulate(jobs, settings=FAIR)
    assert again.files["jobs.csv"] == fair.files["jobs.csv"]


def test_services_take_their_share_by_day_and_training_has_it_back_at_night() -> None:
    """A day of ten minutes: the shares over time that the report draws."""
    jobs = [
        group(f"g{number}", {"name": "w", "min": 1, "max": 4, "runSeconds": 500}, freezeSeconds=20)
        for number in range(2)
    ]
    services = [
        job(f"s{number}", queue="b", submitSeconds=200, runSeconds=200, priorityClass="urgent")
        for number in range(2)
    ]
    result = simulate([*jobs, *services], settings=FAIR)
    assert result.summary.states == {"SUCCEEDED": 10}
    assert [share_at(result, time) for time in (100, 300, 450)] == [1.0, 0.5, 1.0]
    assert "Shares of the queues" in result.files["report.html"].decode()


def test_no_round_is_skipped_that_starts_a_job_by_the_order_fair() -> None:
    """`x` ran before, so `y` goes first, and its queue stays below the share that `b` has."""
    jobs = [
        job("long", cpu=4, runSeconds=1000),
        job("x", cpu=5, runSeconds=500, checkpointSeconds=1),
        job("like-y", cpu=3),
        job("also-like-y", cpu=3),
        *(job(name, queue="b", cpu=4, submitSeconds=100, runSeconds=400) for name in ("b1", "b2")),
        job("y", cpu=3, submitSeconds=120),
    ]
    nodes = [{"name": "n", "resources": {"cpu": 12, "memory": "16Gi"}}]
    rules = {**FAIR, "protectedFractionOfFairShare": 1}
    result = simulate(jobs, nodes, rules)
    every = simulate(jobs, nodes, rules, every_round=True)
    assert result.jobs["x"]["preemptions"] != "0"
    assert starts(result, "y") == [120]
    assert result.files["jobs.csv"] == every.files["jobs.csv"]
    assert result.files["runs.csv"] == every.files["runs.csv"]
