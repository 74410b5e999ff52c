"""How long an executor has been silent: by the append times of the log, up to what was read."""

from fairlead_common.domain.records import clusters as records
from fairlead_common.domain.records.clusters import Heartbeat, LeaderHeartbeat, Node
from fairlead_common.log import Entry, Record, topics
from fairlead_common.log.memory_log import MemoryLog
from fairlead_scheduler.service.leader_heartbeat import LeaderHeartbeats, LogClock
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.jobs.job_table import NodeName

STEP_S_MAX = 10.0


class History:
    """`fairlead.clusters` as it is appended, and a leader that reads it when it is asked to."""

    def __init__(self) -> None:
        self.clusters = Clusters()
        self._unread: list[Entry] = []
        self._position = 0

    def executor(self, *at_s: float, name: str = "e0") -> None:
        """An executor's heartbeats."""
        for time_s in at_s:
            self._append(records.heartbeat_record(Heartbeat(executor=name)), time_s)

    def leader(self, *at_s: float, instance: str = "me") -> None:
        """A leader's heartbeats."""
        for time_s in at_s:
            beat = LeaderHeartbeat(instance=instance)
            self._append(records.leader_heartbeat_record(beat), time_s)

    def node_gone(self, at_s: float) -> None:
        """A node is gone."""
        node = Node(executor="e0", name="n0", allocatable={"cpu": 1000})
        self._append(records.node_record(node), at_s)
        self._append(records.removed_node_record("e0", "n0"), at_s)

    def _append(self, record: Record, time_s: float) -> None:
        self._position += 1
        time_ms = round(1000 * time_s)
        self._unread.append(Entry(0, self._position, record.key, record.value, time_ms))

    def read(self, count: int | None = None) -> None:
        """The leader reads some records, or all."""
        count = len(self._unread) if count is None else count
        self.clusters.fold(self._unread[:count])
        del self._unread[:count]


def led() -> History:
    """A leader that has just begun, and an executor that has just reported."""
    history = History()
    history.executor(0)
    history.read()
    history.clusters.start_leading("me", step_s_max=STEP_S_MAX)
    history.leader(0)
    history.read()
    return history


def test_silence_of_an_executor_grows_with_the_leaders_heartbeats() -> None:
    history = led()
    history.leader(5, 10, 15)
    history.read()
    assert history.clusters.silence_s == {"e0": 15.0}
    history.executor(16)
    history.read()
    assert history.clusters.silence_s == {"e0": 0.0}
    history.leader(20, 25)
    history.read()
    assert history.clusters.silence_s == {"e0": 5.0}


def test_time_of_a_frozen_leader_is_not_silence_of_executors() -> None:
    history = led()
    history.executor(*range(5, 1_000, 5))
    history.leader(1_000)
    while history.clusters.leader_ms != 1_000_000:
        history.read(1)
        assert history.clusters.silence_s == {"e0": 0.0}


def test_time_without_a_heartbeat_of_the_leader_counts_for_one_step() -> None:
    history = led()
    history.leader(1_000)
    history.read()
    assert history.clusters.silence_s == {"e0": STEP_S_MAX}


def test_heartbeats_of_another_leader_do_not_count() -> None:
    history = led()
    history.leader(5, 10, instance="other")
    history.read()
    assert history.clusters.silence_s == {"e0": 0.0}


def test_a_new_leader_starts_at_zero_silence() -> None:
    history = led()
    history.node_gone(1)
    history.leader(5, 10, 15)
    history.read()
    history.clusters.start_leading("next", step_s_max=STEP_S_MAX)
    assert history.clusters.silence_s == {"e0": 0.0}
    assert history.clusters.missing_s == {NodeName("e0", "n0"): 0.0}
    history.leader(20, 25, instance="next")
    history.read()
    assert history.clusters.silence_s == {"e0": 5.0}


def test_a_removed_node_ages_by_the_leaders_heartbeats() -> None:
    history = led()
    history.node_gone(1)
    history.leader(4, 1_000)
    history.read()
    assert history.clusters.missing_s == {NodeName("e0", "n0"): 4.0 + STEP_S_MAX}


def test_a_log_clock_set_back_changes_no_silence() -> None:
    history = led()
    history.leader(5, 3, 6)
    history.read()
    assert history.clusters.silence_s == {"e0": 8.0}


def test_a_record_that_is_read_twice_counts_once() -> None:
    history = led()
    beat = records.leader_heartbeat_record(LeaderHeartbeat(instance="me"))
    history.clusters.fold([Entry(0, 10, beat.key, beat.value, 5_000)] * 2)
    history.clusters.fold([Entry(0, 9, beat.key, beat.value, 1_000)])
    history.leader(8)
    assert history.clusters.silence_s == {"e0": 5.0}


class Clocks:
    """This machine's clocks, as a test sets them."""

    def __init__(self) -> None:
        self.wall_ms = 0
        self.monotonic_s = 0.0

    def pass_s(self, seconds: float) -> None:
        """Time goes by."""
        self.wall_ms += round(1000 * seconds)
        self.monotonic_s += seconds


def log_clock(history: History, clocks: Clocks) -> LogClock:
    return LogClock(
        history.clusters,
        STEP_S_MAX,
        wall_ms=lambda: clocks.wall_ms,
        monotonic_s=lambda: clocks.monotonic_s,
    )


def test_log_time_stops_for_a_leader_that_reads_nothing() -> None:
    history, clocks = led(), Clocks()
    log_time = log_clock(history, clocks)
    assert log_time.now_ms() == 0
    clocks.pass_s(4)
    assert log_time.now_ms() == 4_000
    clocks.pass_s(996)
    assert log_time.now_ms() == 10_000
    history.leader(1_000)
    history.read()
    assert log_time.now_ms() == 1_000_000


def test_a_clock_of_this_machine_that_jumps_ahead_makes_nothing_due() -> None:
    history, clocks = led(), Clocks()
    log_time = log_clock(history, clocks)
    assert log_time.now_ms() == 0
    clocks.wall_ms += 3_600_000
    clocks.pass_s(2)
    assert log_time.now_ms() == 2_000


def test_a_clock_of_the_log_that_jumps_ahead_makes_nothing_due() -> None:
    history, clocks = led(), Clocks()
    log_time = log_clock(history, clocks)
    assert log_time.now_ms() == 0
    clocks.pass_s(2)
    history.leader(3_600)
    history.read()
    assert log_time.now_ms() == 2_000


def test_the_time_of_the_log_follows_a_clock_that_was_set_back_far() -> None:
    """As of a machine that started with a wrong clock. What starts now is not overdue for that."""
    history, clocks = led(), Clocks()
    log_time = log_clock(history, clocks)
    clocks.pass_s(7_200)
    history.leader(7_200)
    history.read()
    assert log_time.now_ms() == 7_200_000
    clocks.wall_ms -= 3_600_000
    history.leader(3_600)
    history.read()
    assert log_time.now_ms() == 3_600_000
    clocks.pass_s(2)
    assert log_time.now_ms() == 3_602_000


def test_the_time_of_the_log_does_not_go_back_by_little() -> None:
    history, clocks = led(), Clocks()
    log_time = log_clock(history, clocks)
    assert log_time.now_ms() == 0
    clocks.pass_s(5)
    assert log_time.now_ms() == 5_000
    clocks.wall_ms = 1_000
    assert log_time.now_ms() == 5_000


async def test_the_heartbeats_of_a_leader_say_when_an_executor_is_stale_and_lost() -> None:
    """So the dashboard judges executors as the scheduler does."""
    log = MemoryLog(lambda: 0)
    await log.create(topics.clusters())
    settings = SchedulerSettings(executor_stale_s=12.5, executor_timeout_s=90)
    await LeaderHeartbeats.of(settings, await log.producer("test"), since_ms=7).append()
    reader = await log.reader(topics.CLUSTERS, await log.start_positions(topics.CLUSTERS))
    (entry,) = (await reader.read()).entries
    assert entry.value is not None
    beat = records.decode(entry.value)
    assert isinstance(beat, LeaderHeartbeat)
    assert (beat.executor_stale_ms, beat.executor_timeout_ms) == (12_500, 90_000)
