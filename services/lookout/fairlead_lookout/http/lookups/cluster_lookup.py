"""Clusters, nodes and pools, and what the runs on them request."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import clusters as facts
from fairlead_common.domain.scheduling import quantities
from fairlead_common.service import clock
from fairlead_lookout.domain.model import Amounts
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.responses import cluster_responses, response_base
from fairlead_lookout.store.topic_caches import ClusterCache

JOBS_LISTED_MAX: Final = 20
_decode: Final = msgspec.json.Decoder(Amounts).decode


class NodeUsage(msgspec.Struct):
    """What runs on a node: the number of runs, some of their jobs, what they request."""

    runs: int = 0
    jobs: list[str] = []
    requests: Amounts = {}


class PoolUse(msgspec.Struct, frozen=True):
    """What the nodes of a pool have, and what the runs on them request."""

    allocatable: dict[str, float | int]
    used: dict[str, float | int]


def judge_executor(clusters: ClusterCache, executor: str) -> cluster_responses.ExecutorStatus:
    """Whether it reports, by the limits of the scheduler that leads.

    The scheduler measures silence up to the place in the log that it has read, this up to now: they
    differ while the log or the scheduler is unavailable.
    """
    time_ms = clusters.find_heartbeat_ms(executor)
    if time_ms is None:
        return "STALE"
    limits = clusters.find_limits()
    silent_ms = clock.now_ms() - time_ms
    if silent_ms > limits.executor_timeout_ms:
        return "LOST"
    return "STALE" if silent_ms > limits.executor_stale_ms else "REPORTING"


async def describe_clusters(deps: Deps) -> cluster_responses.ClustersResponse:
    """All clusters that have sent a heartbeat or a node."""
    made = []
    for executor, heartbeat, nodes in deps.clusters.read_all():
        usage = await _read_usage(deps, executor)
        cordon = deps.configuration.find_cordon(executor)
        made.append(
            cluster_responses.ClusterResponse(
                executor=executor,
                backend=heartbeat.backend if heartbeat else "",
                version=heartbeat.version if heartbeat else "",
                last_heartbeat=response_base.format_time(deps.clusters.find_heartbeat_ms(executor)),
                status=judge_executor(deps.clusters, executor),
                nodes=len(nodes),
                pools=_count_pools(nodes),
                allocatable=_to_numbers(_add(node.allocatable for node in nodes)),
                used=_to_numbers(_add(each.requests for each in usage.values())),
                runs=sum(each.runs for each in usage.values()),
                cordoned=cordon is not None,
                reason=cordon.reason or None if cordon else None,
                cordoned_nodes=sum(
                    node.unschedulable
                    or deps.configuration.find_cordon(executor, node.name) is not None
                    for node in nodes
                ),
            )
        )
    return cluster_responses.ClustersResponse(clusters=made)


async def describe_nodes(
    deps: Deps, executor: str, visible_queues: QueueScope
) -> cluster_responses.NodesResponse:
    """The nodes of a cluster. Raises a 404 `Problem`."""
    if executor not in deps.clusters.list_executors():
        raise Problem("not-found", f"Cluster {executor!r} does not exist.")
    usage = await _read_usage(deps, executor)
    visible = await _find_visible_jobs(deps, usage, visible_queues)
    made = []
    for node in sorted(deps.clusters.read_nodes(executor), key=lambda node: node.name):
        own = usage.get(node.name, NodeUsage())
        cordon = deps.configuration.find_cordon(executor, node.name)
        made.append(
            cluster_responses.NodeResponse(
                node=node.name,
                pool=node.pool,
                labels=node.labels,
                taints=list(node.taints),
                unschedulable=node.unschedulable,
                avoided=_describe_avoidance(node.avoided),
                cordoned=cordon is not None,
                reason=cordon.reason or None if cordon else None,
                allocatable=_to_numbers(node.allocatable),
                used=_to_numbers(own.requests),
                runs=own.runs,
                jobs=[job_id for job_id in own.jobs if job_id in visible],
            )
        )
    return cluster_responses.NodesResponse(executor=executor, nodes=made)


async def sum_pools(deps: Deps, pool: str | None = None) -> dict[str, PoolUse]:
    """The resources of each pool, or of one, and what the runs on its nodes request."""
    allocatable: dict[str, list[Amounts]] = {}
    used: dict[str, list[Amounts]] = {}
    for executor, _, nodes in deps.clusters.read_all():
        wanted = [node for node in nodes if pool is None or node.pool == pool]
        usage = await _read_usage(deps, executor) if wanted else {}
        for node in wanted:
            allocatable.setdefault(node.pool, []).append(node.allocatable)
            if node.name in usage:
                used.setdefault(node.pool, []).append(usage[node.name].requests)
    return {
        name: PoolUse(_to_numbers(_add(amounts)), _to_numbers(_add(used.get(name, ()))))
        for name, amounts in allocatable.items()
    }


def _describe_avoidance(
    avoided: facts.Avoidance | None,
) -> cluster_responses.AvoidanceResponse | None:
    if avoided is None:
        return None
    until = timestamps.rfc3339(avoided.until_ms)
    return cluster_responses.AvoidanceResponse(
        failures=avoided.failures, reason=avoided.reason, until=until
    )


async def _read_usage(deps: Deps, executor: str) -> dict[str, NodeUsage]:
    """By node."""
    rows = await deps.view.read_runs_on(executor)
    encoded = await deps.view.read_shape_requests(list({row["shape"] for row in rows}))
    requests = {shape: _decode(amounts) for shape, amounts in encoded.items()}
    found: dict[str, NodeUsage] = {}
    for row in rows:
        usage = found.setdefault(row["node"], NodeUsage())
        usage.runs += row["runs"]
        usage.jobs += row["jobs"][: JOBS_LISTED_MAX - len(usage.jobs)]
        for name, amount in requests.get(row["shape"], {}).items():
            usage.requests[name] = usage.requests.get(name, 0) + amount * row["runs"]
    return found


async def _find_visible_jobs(
    deps: Deps, usage: Mapping[str, NodeUsage], visible_queues: QueueScope
) -> set[str]:
    """The jobs whose queues are visible to the caller."""
    ids = [job_id for each in usage.values() for job_id in each.jobs]
    if visible_queues.is_everything:
        return set(ids)
    queues = await deps.view.read_queues_of(ids)
    return {job_id for job_id, queue in queues.items() if queue in visible_queues}


def _count_pools(nodes: Iterable[facts.Node]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for node in nodes:
        totals[node.pool] = totals.get(node.pool, 0) + 1
    return totals


def _add(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            totals[name] = totals.get(name, 0) + amount
    return totals


def _to_numbers(amounts: Mapping[str, int]) -> dict[str, float | int]:
    """Cores, bytes and units."""
    return {name: quantities.to_number(name, amount) for name, amount in amounts.items()}
