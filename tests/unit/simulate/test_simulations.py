"""Results of small simulations whose figures can be computed by hand."""

import pytest

from tests.unit.simulate.simulations import job, simulate

GANG = {"name": "g", "size": 2}
FAIRLY = {"protectedFractionOfFairShare": 1}


def test_a_small_trace_gives_the_expected_tables() -> None:
    jobs = [
        job("big", cpu=4, runSeconds=20),
        job("next", submitSeconds=5, runSeconds=2.5, cpu=3),
        job("beside", submitSeconds=6, queue="b", runSeconds=30),
    ]
    result = simulate(jobs, settings={"protectedFractionOfFairShare": 2})
    assert result.files["jobs.csv"].decode() == (
        "id,queue,submit_s,start_s,end_s,state,runs,preemptions,lost_s\n"
        "big,a,0,0,20,SUCCEEDED,1,0,0\n"
        "next,a,5,20,22.5,SUCCEEDED,1,0,0\n"
        "beside,b,6,20,50,SUCCEEDED,1,0,0\n"
    )
    assert result.files["runs.csv"].decode() == (
        "id,run,node,start_s,end_s,outcome\n"
        "big,1,n0,0,20,succeeded\n"
        "next,1,n0,20,22.5,succeeded\n"
        "beside,1,n0,20,50,succeeded\n"
    )
    assert result.files["queues.csv"].decode() == (
        "time,queue,weight_share,fair_share,actual_share,queued,running\n"
        "0,a,1.0,1.0,1.0,0,1\n"
        "10,a,0.5,0.75,1.0,1,1\n"
        "10,b,0.5,0.25,0.0,1,0\n"
        "20,a,0.5,0.75,0.75,0,1\n"
        "20,b,0.5,0.25,0.25,0,1\n"
        "30,a,0.0,0.0,0.0,0,0\n"
        "30,b,1.0,0.25,0.25,0,1\n"
        "50,b,0.0,0.0,0.0,0,0\n"
    )


def test_the_summary_has_every_figure() -> None:
    jobs = [job("first", cpu=4, runSeconds=20), job("second", submitSeconds=4, cpu=2)]
    summary = simulate(jobs).summary
    assert summary.makespan_seconds == 30
    assert summary.utilisation == {"cpu": round((4 * 20 + 2 * 10) / (4 * 30), 6), "memory": 0.0}
    assert (summary.wait_seconds.mean, summary.wait_seconds.p50, summary.wait_seconds.max) == (
        8.0,
        8.0,
        16.0,
    )
    assert summary.mean_bounded_slowdown == round((1 + (16 + 10) / 10) / 2, 6)
    assert summary.longest_wait is not None
    assert (summary.longest_wait.id, summary.longest_wait.seconds) == ("second", 16.0)
    assert (summary.preemptions, summary.lost_resource_seconds, summary.stuck) == (0, {}, [])
    assert summary.states == {"SUCCEEDED": 2}
    assert summary.waited_job_seconds == {"insufficient-resources": 16.0}


def test_a_job_waits_for_its_dependencies() -> None:
    jobs = [job("last", after=["first", "second"]), job("first"), job("second", runSeconds=25)]
    result = simulate(jobs)
    assert result.jobs["last"]["start_s"] == "25"


def test_a_job_submitted_after_its_dependency_ended_starts_at_once() -> None:
    jobs = [job("first"), job("late", submitSeconds=500, after=["first"])]
    assert simulate(jobs).jobs["late"]["start_s"] == "500"


def test_a_job_is_cancelled_when_its_dependency_fails() -> None:
    jobs = [job("first", failAfterSeconds=3), job("second", after=["first"])]
    result = simulate(jobs)
    assert result.jobs["first"]["state"] == "FAILED"
    assert (result.jobs["first"]["end_s"], result.jobs["first"]["lost_s"]) == ("3", "3")
    second = result.jobs["second"]
    assert (second["state"], second["start_s"], second["end_s"]) == ("CANCELLED", "", "3")


def test_a_failed_run_is_retried_up_to_the_limit() -> None:
    result = simulate([job("a", failAfterSeconds=4, retry={"limit": 2})])
    assert [run["outcome"] for run in result.runs] == ["failed"] * 3
    row = result.jobs["a"]
    assert (row["state"], row["runs"], row["lost_s"]) == ("FAILED", "3", "12")


def test_a_failure_beyond_the_run_time_never_happens() -> None:
    assert simulate([job("a", failAfterSeconds=11)]).jobs["a"]["state"] == "SUCCEEDED"


@pytest.mark.parametrize(("probability", "state"), [(0, "SUCCEEDED"), (1, "FAILED")])
def test_runs_fail_with_the_given_probability(probability: float, state: str) -> None:
    jobs = [job(f"a{n}", failAfterSeconds={"probability": probability}) for n in range(4)]
    result = simulate(jobs)
    assert {row["state"] for row in result.jobs.values()} == {state}
    if state == "FAILED":
        ends = {float(row["end_s"]) for row in result.jobs.values()}
        assert len(ends) == 4
        assert max(ends) < 10


def test_a_run_ends_at_its_maximum_run_time() -> None:
    row = simulate([job("a", maxRuntimeSeconds=4)]).jobs["a"]
    assert (row["state"], row["end_s"]) == ("FAILED", "4")


def test_a_run_above_the_fair_share_is_preempted_and_restarts() -> None:
    jobs = [job(f"a{n}", runSeconds=100) for n in range(4)]
    jobs += [job(f"b{n}", queue="b", submitSeconds=30) for n in range(2)]
    result = simulate(jobs, settings=FAIRLY)
    stopped = [row for row in result.jobs.values() if row["preemptions"] == "1"]
    assert [(row["queue"], row["lost_s"], row["runs"]) for row in stopped] == [("a", "30", "2")] * 2
    assert {row["end_s"] for row in stopped} == {"140"}
    assert result.summary.preemptions_by_cause == {"fair-share": 2}
    assert result.summary.lost_to_preemption == {"cpu": 60.0}


def test_a_checkpoint_saves_the_work_done() -> None:
    jobs = [job(f"a{n}", runSeconds=100, checkpointSeconds=20) for n in range(4)]
    jobs += [job(f"b{n}", queue="b", submitSeconds=30) for n in range(2)]
    result = simulate(jobs, settings=FAIRLY)
    stopped = [row for row in result.jobs.values() if row["preemptions"] == "1"]
    assert {(row["lost_s"], row["end_s"]) for row in stopped} == {("10", "120")}


def test_a_job_that_must_not_be_requeued_ends_preempted() -> None:
    jobs = [job(f"a{n}", runSeconds=100, onPreemption="fail") for n in range(4)]
    jobs += [job(f"b{n}", queue="b", submitSeconds=30) for n in range(2)]
    states = [row["state"] for row in simulate(jobs, settings=FAIRLY).jobs.values()]
    assert sorted(states) == ["PREEMPTED"] * 2 + ["SUCCEEDED"] * 4


def test_urgent_jobs_start_first_and_victims_restart() -> None:
    jobs = [job("low", cpu=4, runSeconds=50), job("now", cpu=4, submitSeconds=10)]
    jobs[1]["priorityClass"] = "high"
    result = simulate(jobs)
    assert (result.jobs["now"]["start_s"], result.jobs["low"]["end_s"]) == ("10", "70")
    assert result.summary.preemptions_by_cause == {"urgency": 1}


def test_jobs_of_a_queue_start_by_priority() -> None:
    jobs = [job("run", cpu=4), job("low", cpu=4), job("high", cpu=4, priority=7)]
    result = simulate([{**one, "submitSeconds": at} for at, one in enumerate(jobs)])
    assert (result.jobs["high"]["start_s"], result.jobs["low"]["start_s"]) == ("10", "20")


def test_a_gang_starts_together_or_not_at_all() -> None:
    gang = {"name": "g", "size": 3}
    jobs = [job("before", cpu=2)] + [job(f"g{n}", gang=gang, submitSeconds=1) for n in range(3)]
    starts = {row["start_s"] for name, row in simulate(jobs).jobs.items() if name[0] == "g"}
    assert starts == {"10"}


def test_a_gang_stays_within_one_value_of_its_label() -> None:
    nodes = [
        {"name": rack, "count": 2, "resources": {"cpu": 2}, "labels": {"rack": rack}}
        for rack in ("x", "y")
    ]
    gang = {"name": "g", "size": 2, "uniformityLabel": "rack"}
    jobs = [job("one", cpu=2), job("g0", cpu=2, gang=gang), job("g1", cpu=2, gang=gang)]
    racks = {run["node"][0] for run in simulate(jobs, nodes).runs if run["id"] != "one"}
    assert len(racks) == 1


def test_a_gang_whose_members_never_come_ends_the_simulation_with_its_reason() -> None:
    jobs = [job("g0", gang={"name": "g", "size": 2}), job("fine")]
    result = simulate(jobs)
    assert (result.jobs["g0"]["state"], result.jobs["g0"]["end_s"]) == ("QUEUED", "")
    (stuck,) = result.summary.stuck
    assert (stuck.code, stuck.jobs, stuck.queue, stuck.job) == ("gang-incomplete", 1, "a", "g0")


def test_jobs_that_wait_for_each_other_end_the_simulation_with_their_reason() -> None:
    result = simulate([job("a", after=["b"]), job("b", after=["a"]), job("c")])
    (stuck,) = result.summary.stuck
    assert (stuck.code, stuck.jobs) == ("after", 2)
    assert "waits for job b" in stuck.reason


def test_jobs_of_a_cordoned_queue_end_the_simulation_with_their_reason() -> None:
    result = simulate([job("a"), job("c")], settings={"queues": {"a": {"cordoned": True}}})
    (stuck,) = result.summary.stuck
    assert (stuck.code, stuck.jobs) == ("queue-cordoned", 2)
    assert result.summary.longest_wait is not None


def test_a_simulation_ends_with_the_last_run() -> None:
    jobs = [job("first", cpu=4, runSeconds=10), job("second", cpu=4, runSeconds=4)]
    result = simulate(jobs)
    assert result.summary.makespan_seconds == 14
    assert result.summary.utilisation["cpu"] == 1.0
    assert result.files["queues.csv"].decode().splitlines()[-1] == "14,a,0.0,0.0,0.0,0,0"


def test_a_job_that_fits_no_node_is_rejected_with_the_reason() -> None:
    result = simulate([job("a", cpu=5), job("b", nodeSelector={"zone": "x"}), job("c")])
    assert {row["state"] for row in result.jobs.values()} == {"REJECTED", "SUCCEEDED"}
    (refused,) = result.summary.refused
    assert (refused.code, refused.jobs) == ("infeasible", 2)


def test_rate_limited_starts_continue_without_other_changes() -> None:
    settings = {"rate": {"perSecond": 0.01, "burst": 1}}
    result = simulate([job("a"), job("b")], settings=settings)
    assert result.jobs["b"]["start_s"] == "100"


def test_a_gang_that_is_not_complete_in_time_is_rejected() -> None:
    jobs = [job("g0", gang={"name": "g", "size": 2}), job("fine", runSeconds=5)]
    result = simulate(jobs, settings={"gangAssemblyTimeoutS": 60})
    assert (result.jobs["g0"]["state"], result.jobs["g0"]["end_s"]) == ("REJECTED", "65")
    assert [refused.code for refused in result.summary.refused] == ["gang-incomplete"]


def test_a_queue_limit_is_enforced() -> None:
    settings = {"queues": {"a": {"limits": {"default": {"cpu": 0.5}}}}}
    result = simulate([job(f"a{n}") for n in range(4)], settings=settings)
    assert [row["start_s"] for row in result.jobs.values()] == ["0", "0", "10", "10"]


def test_queues_share_the_pool_by_weight() -> None:
    jobs = [job(f"{queue}{n}", queue=queue) for n in range(8) for queue in ("a", "b")]
    result = simulate(jobs, settings={"queues": {"b": {"weight": 3}}})
    first = [row["queue"] for row in result.jobs.values() if row["start_s"] == "0"]
    assert sorted(first) == ["a", "b", "b", "b"]


def test_a_job_of_a_shape_that_waits_in_another_queue_causes_no_round() -> None:
    jobs = [
        job(
            name,
            queue=queue,
            submitSeconds=at,
            runSeconds=100,
            cpu=4,
            priorityClass="non-preemptible",
        )
        for name, queue, at in (("runs", "a", 0), ("waits", "a", 5), ("also", "b", 20))
    ]
    result = simulate(jobs)
    assert result.jobs == simulate(jobs, every_round=True).jobs
    assert result.summary.rounds == 4, "at 0 and 5 s, and at 100 and 200 s when the node is free"


def test_rounds_are_at_least_a_second_apart() -> None:
    jobs = [job("a"), job("b", submitSeconds=0.4), job("c", submitSeconds=0.9)]
    starts = [row["start_s"] for row in simulate(jobs).jobs.values()]
    assert starts == ["0", "1", "1"]


def test_capacity_on_several_nodes_together_is_no_reason_for_a_round() -> None:
    hosts = [f"h{number}" for number in range(4)]
    nodes = [
        {"name": host, "resources": {"cpu": 2, "memory": "4Gi"}, "labels": {"host": host}}
        for host in hosts
    ]
    evictable = [
        job(
            host, queue="a", memory="3Gi", runSeconds=10 + 500 * number, nodeSelector={"host": host}
        )
        for number, host in enumerate(hosts)
    ]
    protected = [
        job(f"c-{host}", queue="c", runSeconds=100, nodeSelector={"host": host}) for host in hosts
    ]
    waiting = job("waits", queue="b", submitSeconds=5, cpu=2)
    jobs, weights = [*evictable, *protected, waiting], {"queues": {"c": {"weight": 3}}}
    result = simulate(jobs, nodes, weights)
    assert result.jobs["waits"]["start_s"] == "100"
    assert result.jobs == simulate(jobs, nodes, weights, every_round=True).jobs
    assert result.summary.rounds == 3, "at 0 and 5 s, at 100 s, but not when a core is free at 10 s"


def test_random_run_times_depend_only_on_seed_and_job() -> None:
    drawn = {"min": 5, "meanTail": 60}
    first = simulate([job("a", runSeconds=drawn), job("b", runSeconds=drawn)], seed=1)
    turned = simulate([job("b", runSeconds=drawn), job("a", runSeconds=drawn)], seed=1)
    other = simulate([job("a", runSeconds=drawn), job("b", runSeconds=drawn)], seed=2)
    assert first.jobs == turned.jobs
    assert first.jobs["a"]["end_s"] != first.jobs["b"]["end_s"]
    assert first.jobs["a"]["end_s"] != other.jobs["a"]["end_s"]


def test_nodes_of_other_pools_and_cordoned_nodes_get_no_jobs() -> None:
    nodes: list[dict[str, object]] = [
        {"name": "here", "resources": {"cpu": 1}},
        {"name": "there", "resources": {"cpu": 4}, "pool": "other"},
        {"name": "closed", "resources": {"cpu": 4}, "unschedulable": True},
    ]
    result = simulate([job("a"), job("b")], nodes)
    assert {run["node"] for run in result.runs} == {"here0"}
    assert result.summary.utilisation["cpu"] == 1.0


def test_a_preemptor_starts_when_the_preempted_run_has_stopped() -> None:
    jobs = [
        job("low", cpu=4, runSeconds=100, priorityClass="low", stopSeconds=15, checkpointSeconds=7),
        job("urgent", queue="b", submitSeconds=30, cpu=4, runSeconds=10, priorityClass="urgent"),
    ]
    result = simulate(jobs)
    assert result.rows("runs.csv") == [
        {
            "id": "low",
            "run": "1",
            "node": "n0",
            "start_s": "0",
            "end_s": "45",
            "outcome": "preempted",
        },
        {
            "id": "urgent",
            "run": "1",
            "node": "n0",
            "start_s": "45",
            "end_s": "55",
            "outcome": "succeeded",
        },
        {
            "id": "low",
            "run": "2",
            "node": "n0",
            "start_s": "55",
            "end_s": "127",
            "outcome": "succeeded",
        },
    ]
    assert result.jobs["low"]["lost_s"] == "17"  # 28 s are saved when it is preempted


def test_a_run_that_completes_while_it_is_stopping_succeeds() -> None:
    jobs = [
        job("low", cpu=4, runSeconds=40, priorityClass="low", stopSeconds=15),
        job("urgent", queue="b", submitSeconds=30, cpu=4, priorityClass="urgent"),
    ]
    result = simulate(jobs)
    assert (result.jobs["low"]["state"], result.jobs["low"]["runs"]) == ("SUCCEEDED", "1")
    assert result.jobs["urgent"]["start_s"] == "40"


def test_a_gang_starts_when_the_last_preempted_run_has_stopped() -> None:
    jobs = [
        *(
            job(f"low{n}", cpu=2, runSeconds=99, priorityClass="low", stopSeconds=9 * n + 1)
            for n in (0, 1)
        ),
        *(
            job(f"g{n}", queue="b", submitSeconds=30, cpu=2, priorityClass="urgent", gang=GANG)
            for n in (0, 1)
        ),
    ]
    result = simulate(jobs)
    assert [result.jobs[f"g{n}"]["start_s"] for n in (0, 1)] == ["40", "40"]


def test_whoever_starts_where_a_run_is_stopped_for_another_job_waits_for_its_end() -> None:
    """The run is stopped for `last`, whose decision comes after that of the gang."""
    jobs = [
        job("low", cpu=4, runSeconds=99, priorityClass="low", stopSeconds=8),
        *(job(f"g{n}", submitSeconds=30, cpu=1, priorityClass="urgent", gang=GANG) for n in (0, 1)),
        job("last", queue="b", submitSeconds=30, cpu=1, priorityClass="urgent"),
    ]
    result = simulate(jobs)
    assert {result.jobs[name]["start_s"] for name in ("g0", "g1", "last")} == {"38"}


def test_runs_of_a_removed_node_are_lost_and_restart_on_another() -> None:
    nodes = [
        {"name": "spot", "resources": {"cpu": 1}, "untilSeconds": 30},
        {"name": "late", "resources": {"cpu": 1}, "fromSeconds": 50},
    ]
    result = simulate([job("a", runSeconds=40)], nodes)
    assert [list(run.values())[2:] for run in result.runs] == [
        ["spot0", "0", "30", "lost"],
        ["late0", "50", "90", "succeeded"],
    ]
    row = result.jobs["a"]
    assert (row["state"], row["runs"], row["preemptions"], row["lost_s"]) == (
        "SUCCEEDED",
        "2",
        "0",
        "30",
    )
    assert result.summary.makespan_seconds == 90
    assert result.summary.utilisation == {"cpu": 1.0}


def test_jobs_that_wait_after_the_last_node_is_removed_have_that_reason() -> None:
    nodes = [{"name": "n", "resources": {"cpu": 1}, "untilSeconds": 5}]
    (waits,) = simulate([job("a")], nodes).summary.stuck
    assert (waits.jobs, waits.reason) == (1, "The pool has no nodes left.")


def test_a_smaller_node_keeps_its_runs_and_a_larger_one_gets_more() -> None:
    changes = [
        {"atSeconds": 5, "resources": {"cpu": 1}},
        {"atSeconds": 60, "resources": {"cpu": 3}},
    ]
    nodes = [{"name": "n", "resources": {"cpu": 2}, "changes": changes}]
    jobs = [
        job("a", runSeconds=20),
        job("b", runSeconds=30),
        *(job(f"c{n}", submitSeconds=10, runSeconds=100) for n in range(3)),
    ]
    result = simulate(jobs, nodes)
    assert [row["start_s"] for row in result.jobs.values()] == ["0", "0", "30", "60", "60"]
    assert result.summary.preemptions == 0


def test_the_retry_policy_of_a_queue_applies_to_jobs_without_one() -> None:
    queues = {"a": {"retryPolicy": {"limit": 2, "on": ["exit-code"]}}}
    jobs = [
        job("no-policy", failAfterSeconds=3),
        job("never", failAfterSeconds=3, retry={"limit": 0}),
        job("elsewhere", queue="b", failAfterSeconds=3),
    ]
    result = simulate(jobs, settings={"queues": queues})
    assert [row["runs"] for row in result.jobs.values()] == ["3", "1", "1"]


def test_waits_are_compared_by_the_number_of_devices_or_else_of_cores() -> None:
    nodes = [{"name": "n", "resources": {"cpu": 4, "gpu": 2, "memory": "16Gi"}}]
    jobs = [
        job("one", cpu=0.5, runSeconds=5),
        job("large", cpu=3, runSeconds=5, submitSeconds=1),
        job("late", cpu=4, submitSeconds=2),
        job("devices", cpu=1, gpu=2, submitSeconds=3),
        job("refused", cpu=64),
    ]
    found = simulate(jobs, nodes).summary.sizes
    assert [(item.size, item.jobs) for item in found] == [
        ("1 core", 1),
        ("3-4 cores", 2),
        ("2 GPUs", 1),
    ]
    waits = simulate(jobs, nodes).jobs["late"]
    late = float(waits["start_s"]) - float(waits["submit_s"])
    assert found[1].wait_seconds.max == late > 0


def test_the_report_has_a_bar_for_each_run_in_the_row_of_its_node() -> None:
    jobs = [job(f"a{n}", queue="<b>", runSeconds=10) for n in range(6)]
    page = simulate(jobs).files["report.html"].decode()
    assert page.count('<rect class="run ') == 6
    assert "a5 of queue &lt;b&gt;: 10 s" in page
    assert "<b>:" not in page


def test_the_report_shows_how_full_the_nodes_were_where_runs_are_too_many_for_bars() -> None:
    nodes = [{"name": "n", "count": 90, "resources": {"cpu": 1}}]
    page = simulate([job("a", cpu=1)], nodes).files["report.html"].decode()
    assert '<rect class="run ' not in page
    assert "n0 +1" in page


def test_code_in_the_texts_of_the_report_is_marked_and_no_legend_is_empty() -> None:
    jobs = [job(f"a{n}", queue=f"q{n}", cpu=4, submitSeconds=n) for n in range(9)]
    page = simulate(jobs).files["report.html"].decode()
    assert "<code>fairlead why</code>" in page
    assert "`" not in page
    assert 'class="name"></text>' not in page
