"""Clusters and nodes as they are now: heartbeats, what they have, what of it is in use, cordons."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain import quantities
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import clusters as facts
from fairlead_lookout.domain.model import Amounts
from fairlead_lookout.http import responses
from fairlead_lookout.http.deps import Parts

RUNS_MAX: Final = 200_000
JOBS_SHOWN: Final = 20
_decode: Final = msgspec.json.Decoder(Amounts).decode


class Use(msgspec.Struct):
    """What runs on a node: how many, some of their jobs, what they asked for."""

    runs: int = 0
    jobs: list[str] = []
    asked: Amounts = {}


async def clusters(parts: Parts) -> responses.ClustersShown:
    """All clusters that are known."""
    made = []
    for executor, beat, nodes in parts.clusters.all():
        use = await _use(parts, executor)
        cordon = parts.configured.cordon(executor)
        total = [node.allocatable for node in nodes]
        made.append(
            responses.ClusterShown(
                executor=executor,
                backend=beat.backend if beat else "",
                version=beat.version if beat else "",
                last_heartbeat=responses.time(parts.clusters.times_ms.get(executor)),
                nodes=len(nodes),
                pools=_pools(nodes),
                allocatable=_plain(_sum(total)),
                used=_plain(_sum(each.asked for each in use.values())),
                runs=sum(each.runs for each in use.values()),
                cordoned=cordon is not None,
                reason=cordon.reason or None if cordon else None,
                cordoned_nodes=sum(
                    node.unschedulable or parts.configured.cordon(executor, node.name) is not None
                    for node in nodes
                ),
            )
        )
    return responses.ClustersShown(clusters=made)


async def nodes(parts: Parts, executor: str, reach: QueueScope) -> responses.NodesShown:
    """A cluster's nodes. Raises a 404 `Problem`."""
    found = {name: nodes for name, _, nodes in parts.clusters.all()}
    if executor not in found:
        raise Problem("not-found", f"There is no cluster {executor!r} that was heard of.")
    use = await _use(parts, executor)
    visible = await _visible(parts, use, reach)
    made = []
    for node in sorted(found[executor], key=lambda node: node.name):
        own = use.get(node.name, Use())
        cordon = parts.configured.cordon(executor, node.name)
        made.append(
            responses.NodeShown(
                node=node.name,
                pool=node.pool,
                labels=node.labels,
                taints=list(node.taints),
                unschedulable=node.unschedulable,
                cordoned=cordon is not None,
                reason=cordon.reason or None if cordon else None,
                allocatable=_plain(node.allocatable),
                used=_plain(own.asked),
                runs=own.runs,
                jobs=[job_id for job_id in own.jobs if job_id in visible],
            )
        )
    return responses.NodesShown(executor=executor, nodes=made)


async def _use(parts: Parts, executor: str) -> dict[str, Use]:
    """By node."""
    rows = await parts.view.fetch("runs_on", executor, RUNS_MAX)
    names = list({row["shape"] for row in rows})
    asked = {
        row["key"]: _decode(row["requests"]) for row in await parts.view.fetch("shapes", names)
    }
    found: dict[str, Use] = {}
    for row in rows:
        use = found.setdefault(row["node"], Use())
        use.runs += row["runs"]
        use.jobs += row["jobs"][: JOBS_SHOWN - len(use.jobs)]
        for name, amount in asked.get(row["shape"], {}).items():
            use.asked[name] = use.asked.get(name, 0) + amount * row["runs"]
    return found


async def _visible(parts: Parts, use: Mapping[str, Use], reach: QueueScope) -> set[str]:
    """The jobs whose queues the caller may view."""
    ids = [job_id for each in use.values() for job_id in each.jobs]
    if reach.is_everything:
        return set(ids)
    rows: list[Any] = await parts.view.fetch("queues_of", ids)
    return {row["id"] for row in rows if row["queue"] in reach}


def _pools(nodes_: Iterable[facts.Node]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for node in nodes_:
        totals[node.pool] = totals.get(node.pool, 0) + 1
    return totals


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            totals[name] = totals.get(name, 0) + amount
    return totals


def _plain(amounts: Mapping[str, int]) -> dict[str, float | int]:
    return {name: quantities.to_number(name, amount) for name, amount in amounts.items()}
