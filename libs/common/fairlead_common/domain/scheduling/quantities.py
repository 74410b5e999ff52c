"""Amounts of resources: Kubernetes quantities in, integers in fixed units out.

cpu is counted in thousandths of a core, everything else in its base unit (bytes, devices). A
request is rounded up and a capacity down, so that no node gets more than it has. Devices, licences
and other resources are counted in whole units.
"""

import re
from fractions import Fraction
from typing import Any, Final

import msgspec

CPU: Final = "cpu"
MEMORY: Final = "memory"
GPU: Final = "nvidia.com/gpu"

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY: Final = re.compile(
    r"([+-]?)([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:([eE][+-]?[0-9]{1,2})|([a-zA-Z]{0,2}))"
)
_IN_BYTES: Final = ("memory", "storage", "hugepages-")
AMOUNT_MAX: Final = 2**53
"""Largest amount of anything, in its fixed unit: exact as a double, and far above any machine."""


def parse_quantity(resource: str, text: str | int | float, *, round_up: bool) -> int:
    """The amount in the resource's fixed unit. Raises ValueError with a sentence for people."""
    amount = _parse(resource, text)
    if amount.denominator != 1 and not is_divisible(resource):
        raise ValueError(
            f"{text!r} is not a whole number; {resource} is counted in whole units, like 1 or 2"
        )
    return _round(amount, text, round_up)


def parse_recorded_limit(resource: str, text: str) -> int:
    """The amount of a limit in the log: older versions permitted parts of devices, which count as
    nothing. Raises ValueError with a sentence for people."""
    return _round(_parse(resource, text), text, round_up=False)


def is_divisible(resource: str) -> bool:
    """Whether parts of a unit can be requested: of processors, and of amounts in bytes."""
    in_bytes = "/" not in resource and any(part in resource for part in _IN_BYTES)
    return resource == CPU or in_bytes


def _parse(resource: str, text: str | int | float) -> Fraction:
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match[4] not in (None, *_SUFFIXES):
        raise ValueError(f"{text!r} is not a quantity; write it like 2, 500m, 1.5 or 4Gi")
    sign, digits, exponent, suffix = match.groups()
    if sign == "-":
        raise ValueError(f"{text!r} is negative; an amount is 0 or more")
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIXES[suffix]
    amount = Fraction(digits if digits[-1] != "." else digits[:-1]) * scale
    if resource == CPU:
        amount *= 1000
    return amount


def _round(amount: Fraction, text: str | int | float, round_up: bool) -> int:
    whole = -(-amount.numerator // amount.denominator) if round_up else int(amount)
    if whole > AMOUNT_MAX:
        raise ValueError(f"{text!r} exceeds the maximum amount")
    return whole


def to_number(resource: str, amount: int) -> float | int:
    """The amount as reports show it: cores, bytes, units."""
    return amount / 1000 if resource == CPU else amount


_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def format_quantity(resource: str, amount: int) -> str:
    """The shortest exact Kubernetes quantity of an amount in fixed units."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if not is_divisible(resource):
        return str(amount)
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY[power]}"


def scale_spec_memory(spec: bytes, before: int, after: int) -> msgspec.Raw:
    """The pod spec with the memory requests and limits of all containers scaled in proportion."""
    decoded: dict[str, Any] = msgspec.json.decode(spec)  # a pod spec as a user wrote it
    ratio = Fraction(after, before)
    for kind in ("initContainers", "containers"):
        for container in decoded.get(kind) or ():
            asked = container.get("resources") or {}
            for amounts in (asked.get("requests"), asked.get("limits")):
                if amounts and amounts.get(MEMORY) is not None:
                    amounts[MEMORY] = _scale_quantity(amounts[MEMORY], ratio)
    return msgspec.Raw(msgspec.json.encode(decoded))


def _scale_quantity(quantity: str | int | float, ratio: Fraction) -> str:
    amount = parse_quantity(MEMORY, quantity, round_up=True) * ratio
    whole = min(-(-amount.numerator // amount.denominator), AMOUNT_MAX)
    return format_quantity(MEMORY, whole)
