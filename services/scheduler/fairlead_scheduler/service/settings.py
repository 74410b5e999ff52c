"""Settings of the scheduler, on top of those that every service has."""

from typing import Final

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.scheduling import priority_classes
from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.service.settings import Settings, SettingsError
from fairlead_scheduler.state.pool_rules import AVOIDED_MAX, Rules, camel, check_number

LOG_RETENTION_DAYS_MAX: Final = 10_000
DAY_S: Final = 86_400


class SchedulerSettings(Settings, frozen=True, kw_only=True, rename="camel"):
    """`cycle_s`: a cycle at least this often; `cycle_s_min`: never more often than this.

    An executor is stale after `executor_stale_s` without a heartbeat (nothing new goes there) and
    lost after `executor_timeout_s` (its runs are given up). So are the runs on a node that its
    executor has reported gone for `node_gone_s`. A run that is beyond its maximum run time is
    stopped by its executor, else after `deadline_grace_s` (and its own grace) by the scheduler.

    `log_retention_days`: how long the log keeps events of jobs. The scheduler owns this topic: a
    change holds from its next start, for records that are there as well. A service that is away for
    longer needs `fairlead repair`. The number of partitions (32) is not a setting: job ids contain
    the partition ([0052](../decisions/0052-number-of-partitions-is-fixed.md)).
    """

    http_port: int = 8082
    priority_classes: tuple[PriorityClass, ...] = DEFAULT_CLASSES
    rules: Rules = Rules()
    cycle_s: float = 1.0
    cycle_s_min: float = 0.2
    checkpoint_s: float = 1.0
    executor_stale_s: float = 30.0
    executor_timeout_s: float = 600.0
    node_gone_s: float = 60.0
    deadline_grace_s: float = 60.0
    round_s_max: float = 5.0
    ended_kept_days: int = 30
    log_retention_days: int = 30
    standby_poll_s: float = 0.5
    retries_unstarted_max: int = 10

    def find_errors(self) -> list[FieldError]:
        """The field errors that decoding does not find, by the setting's name."""
        found = priority_classes.find_errors(self.priority_classes)
        found += self.rules.find_errors({item.name for item in self.priority_classes})
        above = ("cycle_s", "cycle_s_min", "checkpoint_s", "executor_stale_s", "executor_timeout_s")
        for name in (*above, "round_s_max", "standby_poll_s", "node_gone_s"):
            found += check_number(camel(name), getattr(self, name), least=0, open_end=True)
        found += check_number("deadlineGraceS", self.deadline_grace_s, least=0)
        found += check_number("endedKeptDays", self.ended_kept_days, least=1)
        days = self.log_retention_days
        found += check_number("logRetentionDays", days, least=1, most=LOG_RETENTION_DAYS_MAX)
        unstarted = self.retries_unstarted_max
        found += check_number("retriesUnstartedMax", unstarted, least=1, most=AVOIDED_MAX)
        if self.executor_stale_s >= self.executor_timeout_s:
            found.append(
                FieldError(
                    "executorTimeoutS",
                    f"is {self.executor_timeout_s}; an executor is stale before its runs are given"
                    f" up: set it above executorStaleS ({self.executor_stale_s})",
                )
            )
        if self.cycle_s_min > self.cycle_s:
            detail = f"is {self.cycle_s_min}, above cycleS ({self.cycle_s})"
            found.append(FieldError("cycleSMin", detail))
        return found

    def check(self) -> None:
        """Raises `SettingsError` if there are field errors."""
        if found := self.find_errors():
            raise SettingsError(found)
