"""An installation for the tests of pages: a cluster of two pools, shares, rounds and two jobs."""

from typing import Final

from fairlead_common.domain.records import clusters, configuration, scheduling_reports
from fairlead_common.log.protocol import Record
from tests.integration.lookout.lookout_harness import LookoutHarness
from tests.unit.lookout.builders import leased, submitted
from tests.unit.lookout.builders import running as started

NODES: Final = 120


def reported() -> list[Record]:
    """A cluster of 120 nodes in two pools, the shares of two queues, and some rounds."""
    nodes = [
        clusters.Node(
            name=f"n{number}",
            executor="e",
            pool="gpu" if number % 10 == 9 else "default",
            allocatable={"cpu": 8_000, "memory": 32 * 2**30},
            unschedulable=number == 5,
        )
        for number in range(NODES)
    ]
    shares = [
        scheduling_reports.QueueShare(
            pool="default", queue=queue, weight=weight, fair_share=fair, actual_share=actual,
            demand_share=demand, queued=queued, running=1,
        )
        for queue, weight, fair, actual, demand, queued in (
            ("q", 1.0, 0.5, 0.2, 0.6, 7),
            ("research", 3.0, 0.5, 0.7, 0.9, 0),
        )
    ]  # fmt: skip
    why = scheduling_reports.WaitingReport(
        pool="default", queue="q", code="queue-limit", sentence="It is at its limit.", shape="x",
        jobs=7,
    )  # fmt: skip
    rounds = [
        scheduling_reports.RoundReport(
            pool="default", at_ms=1_800_000_000_000 + 1_000 * number,
            steps_ms={"prepare": 1.0, "place": 3.0 + number}, scheduled=number, waiting=7,
            nodes=NODES, outcome="failed" if number == 3 else "finished",
            error="a bug" if number == 3 else "",
        )
        for number in range(8)
    ]  # fmt: skip
    return [
        clusters.heartbeat_record(clusters.Heartbeat(executor="e", backend="simulated")),
        *[clusters.node_record(node) for node in nodes],
        configuration.record(configuration.Queue(name="research", weight=3.0, version=1)),
        *map(scheduling_reports.record, shares),
        *map(scheduling_reports.record, rounds),
        scheduling_reports.record(why),
    ]


async def fill(harness: LookoutHarness) -> None:
    """Append `reported` and two jobs, of which one runs, and wait until the pages show them."""
    await harness.append(reported())
    events = [submitted("a"), leased("a", node="n0"), started("a"), submitted("b")]
    await harness.read("/clusters", await harness.append_events(*events))
