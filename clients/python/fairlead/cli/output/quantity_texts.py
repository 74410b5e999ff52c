"""Amounts of clusters and nodes as people read them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead import Node

_ALWAYS_LISTED: Final = ("cpu", "memory")
_GPU: Final = "nvidia.com/gpu"


def format_usage(requested: Mapping[str, float], capacity: Mapping[str, float]) -> str:
    """`12/16 cpu, 30/64Gi memory`: requested and total CPUs, memory and GPUs."""
    names = [name for name in (*_ALWAYS_LISTED, _GPU) if capacity.get(name)]
    texts = []
    for name in names:
        requested_text = format_amount(name, requested.get(name, 0))
        texts.append(f"{requested_text}/{format_amount(name, capacity[name])} {_short_name(name)}")
    return ", ".join(texts)


def format_amount(name: str, value: float) -> str:
    """Bytes in the largest unit that leaves a number; other amounts as they are."""
    if name not in ("memory", "ephemeral-storage"):
        return f"{value:.10g}"
    for unit in ("", "Ki", "Mi", "Gi"):
        if value < 1024:
            return f"{value:.4g}{unit}"
        value /= 1024
    return f"{value:.4g}Ti"


def format_limits(limits: Mapping[str, Mapping[str, object]]) -> list[str]:
    """`CLASS/RESOURCE=AMOUNT` of each limit of a queue, as `queue create --limit` takes them."""
    return [
        f"{class_name}/{resource}={amount}"
        for class_name, amounts in limits.items()
        for resource, amount in amounts.items()
    ]


def format_cordon(is_cordoned: bool, reason: str | None) -> str:
    """`no`, `yes`, or why."""
    if not is_cordoned:
        return "no"
    return f"yes: {reason}" if reason else "yes"


def format_node_cordon(node: "Node") -> str:
    """`no`, or why the node accepts no new jobs: an operator, its executor or its cluster."""
    avoided = node.avoided
    if node.cordoned or avoided is None:
        return format_cordon(node.cordoned or node.unschedulable, node.reason)
    return (
        f"avoided until {avoided.until}: {avoided.failures} runs in a row failed to start, the last"
        f" one: {avoided.reason}"
    )


def make_node_fields(cluster: str, node: "Node") -> dict[str, object]:
    """A node with the name of its cluster, for programs."""
    import msgspec

    fields: dict[str, object] = msgspec.to_builtins(node)
    return {"cluster": cluster, **fields}


def _short_name(name: str) -> str:
    return name.rpartition("/")[2]
