"""The topics, their keys and their retention."""

from functools import lru_cache
from typing import Final

from fairlead_common.log.protocol import Topic

JOBS: Final = "fairlead.jobs"
CLUSTERS: Final = "fairlead.clusters"
CONFIG: Final = "fairlead.config"
REPORTS: Final = "fairlead.reports"
QUARANTINE: Final = "fairlead.quarantine"
LEASES_PREFIX: Final = "fairlead.leases."

JOB_PARTITIONS: Final = 32


def jobs(retention_s: int | None = None) -> Topic:
    """The history of each job set, keyed `queue/job set`; a job id names its partition.

    Only the scheduler sets its retention.
    """
    return Topic(JOBS, partitions=JOB_PARTITIONS, retention_s=retention_s)


@lru_cache(maxsize=4096)
def leases(executor: str) -> Topic:
    """The desired runs of one cluster, keyed by run id, and the live members of groups that have
    runs there, keyed `group/<id>`."""
    return Topic(LEASES_PREFIX + executor, compacted=True)


def clusters() -> Topic:
    """Heartbeats of executors, keyed `executor`, and nodes, keyed `executor/node`."""
    return Topic(CLUSTERS, compacted=True)


def config() -> Topic:
    """Queues and cordons, keyed `kind/name`: full values with versions."""
    return Topic(CONFIG, compacted=True)


def reports() -> Topic:
    """Rounds, keyed by pool, shares, keyed `pool/queue`, and below that key the reasons of waiting
    jobs and how close members of groups are (`scheduling_reports`)."""
    return Topic(REPORTS, compacted=True)


def quarantine() -> Topic:
    """Records that could not be decoded, keyed `topic/partition/position/reader`."""
    return Topic(QUARANTINE)
