"""More memory for a job: its pod spec with larger requests and limits."""

from fractions import Fraction
from typing import Any

import msgspec

from fairlead_common.domain import quantities


def scale_spec_memory(spec: bytes, before: int, after: int) -> msgspec.Raw:
    """The pod spec with the memory requests and limits of all containers scaled in proportion."""
    decoded: dict[str, Any] = msgspec.json.decode(spec)  # a pod spec as somebody wrote it
    ratio = Fraction(after, before)
    for kind in ("initContainers", "containers"):
        for container in decoded.get(kind) or ():
            asked = container.get("resources") or {}
            for amounts in (asked.get("requests"), asked.get("limits")):
                if amounts and amounts.get(quantities.MEMORY) is not None:
                    amounts[quantities.MEMORY] = _scale_quantity(amounts[quantities.MEMORY], ratio)
    return msgspec.Raw(msgspec.json.encode(decoded))


def _scale_quantity(quantity: str | int | float, ratio: Fraction) -> str:
    amount = quantities.parse_quantity(quantities.MEMORY, quantity, round_up=True) * ratio
    whole = min(-(-amount.numerator // amount.denominator), quantities.AMOUNT_MAX)
    return quantities.format_quantity(quantities.MEMORY, whole)
