"""What the pages of clusters, pools and jobs draw."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.pages.jobs import run_timelines
from fairlead_lookout.http.pages.scheduling import cluster_pages, pool_pages
from fairlead_lookout.http.responses.cluster_responses import NodeResponse
from fairlead_lookout.http.responses.job_responses import JobDetailResponse, RunResponse
from fairlead_lookout.http.responses.report_responses import RoundResponse
from fairlead_lookout.http.responses.response_base import format_time

BEGIN_MS = 1_800_000_000_000


def node(used: float, **fields: Any) -> NodeResponse:
    return NodeResponse(
        node="n",
        pool="p",
        labels={},
        taints=[],
        allocatable={"cpu": 8},
        used={"cpu": used},
        runs=1,
        jobs=[],
        **fields,
    )


def test_cells_say_how_full_their_nodes_are() -> None:
    nodes = [node(0), node(1), node(4), node(7.9), node(8), node(0, cordoned=True)]
    cells = cluster_pages.draw_cells(nodes, "cpu")
    assert [cell.level for cell in cells[:5]] == ["free", "1", "3", "4", "full"]
    assert [cell.closed for cell in cells] == [False] * 5 + [True]


def test_a_resource_that_a_node_does_not_have_is_free() -> None:
    assert cluster_pages.draw_cells([node(8)], "nvidia.com/gpu")[0].level == "free"


def test_bars_list_cpu_and_memory_first_and_leave_out_what_does_not_exist() -> None:
    has = {"a": 1.0, "memory": 2**31, "cpu": 4, "none": 0}
    bars = cluster_pages.draw_bars({"memory": 2**30, "cpu": 9}, has)
    assert [bar.resource for bar in bars] == ["cpu", "memory", "a"]
    assert [bar.fraction for bar in bars] == [1.0, 0.5, 0.0]
    assert (bars[1].used, bars[1].total) == ("1.0 GiB", "2.0 GiB")


@given(st.lists(st.floats(0, 10_000), max_size=150))
def test_rounds_stay_in_their_box_with_the_newest_at_the_right(durations_ms: list[float]) -> None:
    rounds = [
        RoundResponse(
            time="2026-01-01T00:00:00Z",
            outcome="finished",
            scheduled=0,
            preempted=0,
            waiting=0,
            nodes=1,
            steps_ms={"place": ms},
        )
        for ms in durations_ms
    ]
    bars = pool_pages.draw_rounds(rounds)
    assert len(bars) == min(len(rounds), pool_pages.ROUNDS_DRAWN)
    assert [bar.x for bar in bars] == sorted((bar.x for bar in bars), reverse=True)
    for bar in bars:
        assert bar.x >= 0
        assert bar.x + bar.width <= pool_pages.WIDTH
        assert bar.y >= 0
        assert bar.y + bar.height <= pool_pages.HEIGHT + 0.01


def test_steps_are_summed_over_rounds_with_the_longest_first() -> None:
    rounds = [
        RoundResponse(
            time="2026-01-01T00:00:00Z", outcome="finished", scheduled=0, preempted=0, waiting=0,
            nodes=1, steps_ms=steps,
        )
        for steps in ({"place": 3.0, "build": 1.0}, {"place": 5.0}, {"place": 4.0, "fit": 3.0})
    ]  # fmt: skip
    assert pool_pages.summarize_steps(rounds) == [
        pool_pages.StepTime("place", 4.0, 5.0, 0.75),
        pool_pages.StepTime("fit", 1.0, 3.0, 3 / 16),
        pool_pages.StepTime("build", 1 / 3, 1.0, 1 / 16),
    ]
    assert pool_pages.summarize_steps([]) == []


def made(runs: list[RunResponse], changed_ms: int) -> JobDetailResponse:
    """A job with these runs, oldest first."""
    return JobDetailResponse(
        id="j",
        queue="q",
        job_set="s",
        state="RUNNING",
        pool="p",
        priority=0,
        priority_class="default",
        submitted=format_time(BEGIN_MS) or "",
        changed=format_time(changed_ms) or "",
        runs=runs[::-1],
        namespace="default",
        labels={},
        annotations={},
        after=(),
        on_preemption="requeue",
    )


@st.composite
def jobs(draw: st.DrawFn) -> JobDetailResponse:
    """A job with some runs, one after the other; the last one may be live."""
    at_ms = BEGIN_MS
    runs = []

    def later() -> str:
        nonlocal at_ms
        at_ms += draw(st.integers(0, 100_000))
        return format_time(at_ms) or ""

    count = draw(st.integers(0, 20))
    for number in range(1, count + 1):
        leased = later()
        pending = later() if draw(st.booleans()) else None
        began = later() if pending and draw(st.booleans()) else None
        live = number == count and draw(st.booleans())
        state = "RUNNING" if live else "FAILED"
        runs.append(
            RunResponse(
                run=number,
                state=state,
                cluster="e",
                node="n",
                pool="p",
                leased=leased,
                pending=pending,
                running=began,
                ended=None if live else later(),
            )
        )
    return made(runs, at_ms)


@given(jobs())
def test_runs_are_drawn_in_order_within_their_box(job: JobDetailResponse) -> None:
    timeline = run_timelines.draw_timeline(job, BEGIN_MS + 10_000_000)
    assert timeline.earlier + len(timeline.lanes) == len(job.runs)
    assert len(timeline.lanes) <= run_timelines.RUNS_MAX
    assert [lane.run for lane in timeline.lanes] == sorted(lane.run for lane in timeline.lanes)
    for lane in timeline.lanes:
        at = 0.0
        for segment in lane.segments:
            assert segment.x >= at - 0.01
            at = segment.x + segment.width
        assert at <= 100.01


def test_a_run_that_ended_before_its_command_began_does_not_look_run() -> None:
    run = RunResponse(
        run=1,
        state="FAILED",
        cluster="e",
        node="n",
        pool="p",
        leased=format_time(BEGIN_MS) or "",
        ended=format_time(BEGIN_MS + 5_000),
    )
    timeline = run_timelines.draw_timeline(made([run], BEGIN_MS), BEGIN_MS + 9_000)
    assert [segment.state for segment in timeline.lanes[0].segments] == ["leased"]


def test_durations_have_two_units() -> None:
    written = [rendering.format_duration(ms) for ms in (3.4, 1_500, 61_000, 3_700_000)]
    assert written == ["3 ms", "1.5 s", "1 min 1 s", "1 h 1 min"]
