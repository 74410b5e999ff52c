"""The settings of a simulated cluster: its nodes, and the default behaviour of its runs."""

from typing import Final

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.scheduling.shapes import Taint

NODES_MAX: Final = 200_000


class NodeKind(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """`count` equal nodes `<name>0`, `<name>1`, ...; amounts as Kubernetes writes them."""

    name: str = "n"
    count: int = 1
    resources: dict[str, str | int | float] = msgspec.field(
        default_factory=lambda: {"cpu": 32, "memory": "256Gi"}
    )
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    pool: str | None = None


class Simulation(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """Runs take `min_s` plus an exponentially distributed time of mean `mean_tail_s`.

    `start_s` passes between creation and start. A run fails with exit code 1 with probability
    `failure_rate`, and is returned unstarted with probability `return_rate`. `seed` and the run's
    id determine all of it. All times are divided by `speed`.
    """

    nodes: tuple[NodeKind, ...] = (NodeKind(count=1_000),)
    min_s: float = 10.0
    mean_tail_s: float = 0.0
    start_s: float = 0.0
    failure_rate: float = 0.0
    return_rate: float = 0.0
    seed: int = 0
    speed: float = 1.0


def build_nodes(
    kinds: tuple[NodeKind, ...], executor: str, pool: str, labels: dict[str, str]
) -> list[Node]:
    """The nodes, in the order of their kinds. Raises ValueError for invalid settings."""
    total = sum(kind.count for kind in kinds)
    if total > NODES_MAX:
        raise ValueError(f"{total} simulated nodes are too many; at most {NODES_MAX} are allowed")
    made: list[Node] = []
    for kind in kinds:
        allocatable = {
            name: quantities.parse_quantity(name, amount, round_up=False)
            for name, amount in kind.resources.items()
        }
        made += [
            Node(
                executor=executor,
                name=f"{kind.name}{number}",
                allocatable=allocatable,
                pool=kind.pool or pool,
                labels={**labels, **kind.labels, "kubernetes.io/hostname": f"{kind.name}{number}"},
                taints=kind.taints,
            )
            for number in range(kind.count)
        ]
    if len({node.name for node in made}) != total:
        raise ValueError("two simulated nodes have the same name: give each kind its own name")
    return made
