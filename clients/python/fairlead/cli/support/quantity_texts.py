"""Amounts of clusters and nodes as people read them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead import Node

_ALWAYS_LISTED: Final = ("cpu", "memory")
_GPU: Final = "nvidia.com/gpu"


def used(requested: Mapping[str, float], capacity: Mapping[str, float]) -> str:
    """`12/16 cpu, 30/64Gi memory`: of what capacity is most of the time, and GPUs."""
    names = [name for name in (*_ALWAYS_LISTED, _GPU) if capacity.get(name)]
    return ", ".join(
        f"{amount(name, requested.get(name, 0))}/{amount(name, capacity[name])} {_short(name)}"
        for name in names
    )


def amount(name: str, value: float) -> str:
    """Bytes in the largest unit that leaves a number; other amounts as they are."""
    if name not in ("memory", "ephemeral-storage"):
        return f"{value:.10g}"
    for unit in ("", "Ki", "Mi", "Gi"):
        if value < 1024:
            return f"{value:.4g}{unit}"
        value /= 1024
    return f"{value:.4g}Ti"


def cordon(is_cordoned: bool, reason: str | None) -> str:
    """`no`, `yes`, or why."""
    if not is_cordoned:
        return "no"
    return f"yes: {reason}" if reason else "yes"


def of_cluster(cluster: str, node: "Node") -> dict[str, object]:
    """A node with the name of its cluster, for programs."""
    import msgspec

    fields: dict[str, object] = msgspec.to_builtins(node)
    return {"cluster": cluster, **fields}


def _short(name: str) -> str:
    return name.rpartition("/")[2]
