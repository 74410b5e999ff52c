"""Which record goes where under which key: leases, clusters, configuration, reports."""

from fairlead_common.domain.ids import JobId, RunId
from fairlead_common.domain.records import clusters, configuration, leases, scheduling_reports
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.domain.records.scheduling_reports import QueueShare, RoundReport, WaitingReport
from fairlead_common.log import Record, topics

JOB = JobId("0k01kzm9q5n7s8t9v2w3x4y5z6ab")


def where(record: Record) -> tuple[str, str]:
    """Topic and key."""
    return record.topic, record.key


def test_a_lease_goes_to_its_executors_topic_under_its_run() -> None:
    lease = leases.Lease(job_id=JOB, run=2, queue="q", job_set="s", node="n0")
    record = leases.record("north", lease)
    assert where(record) == ("fairlead.leases.north", f"{JOB}-2")
    assert record.value is not None
    assert leases.decode(record.value) == lease


def test_a_lease_is_cleared_under_the_key_that_made_it() -> None:
    lease = leases.Lease(job_id=JOB, run=2, queue="q", job_set="s", node="n0")
    cleared = leases.deletion_record("north", RunId(f"{JOB}-2"))
    assert where(cleared) == where(leases.record("north", lease))
    assert cleared.value is None


def test_a_heartbeat_and_the_nodes_of_an_executor_have_keys_of_their_own() -> None:
    heartbeat = clusters.heartbeat_record(Heartbeat(executor="north"))
    node = clusters.node_record(Node(executor="north", name="n0", allocatable={"cpu": 1_000}))
    assert where(heartbeat) == ("fairlead.clusters", "north")
    assert where(node) == ("fairlead.clusters", "north/n0")


def test_a_node_goes_under_the_key_that_made_it() -> None:
    gone = clusters.removed_node_record("north", "n0")
    assert where(gone) == ("fairlead.clusters", "north/n0")
    assert gone.value is None


def test_a_queue_and_cordons_have_keys_of_their_own() -> None:
    items: list[Queue | Cordon] = [
        Queue(name="north"),
        Cordon(executor="north"),
        Cordon(executor="north", node="n0"),
    ]
    assert [where(configuration.record(item)) for item in items] == [
        ("fairlead.config", "queue/north"),
        ("fairlead.config", "cordon/north"),
        ("fairlead.config", "cordon/north/n0"),
    ]


def test_a_report_has_the_key_of_what_it_is_about() -> None:
    items: list[WaitingReport | QueueShare | RoundReport] = [
        RoundReport(pool="p", at_ms=1),
        QueueShare(pool="p", queue="q", weight=1.0),
        WaitingReport(pool="p", queue="q", code="c", sentence="s", shape="00ff"),
        WaitingReport(pool="p", queue="q", code="c", sentence="s", job_set="j", gang="g"),
    ]
    keys = [where(scheduling_reports.record(item))[1] for item in items]
    assert keys == ["p", "p/q", "p/q/s/00ff", "p/q/g/j/g"]


def test_a_report_is_taken_back_under_its_key() -> None:
    record = scheduling_reports.deletion_record("p/q")
    assert where(record) == ("fairlead.reports", "p/q")
    assert record.value is None


def test_topics_have_their_retention_or_compaction() -> None:
    assert not topics.jobs().compacted
    folded = (topics.leases("north"), topics.clusters(), topics.config(), topics.reports())
    assert all(topic.compacted and topic.partitions == 1 for topic in folded)
