"""Selectors of device classes, as far as drivers use them: equalities joined by `&&`. Pure.

The API server and kube-scheduler evaluate them as expressions of the Common Expression Language;
decision 67 says why only these forms are read here:

    device.driver == "gpu.example.com"
    device.attributes["gpu.example.com"].type == "gpu"
    "gpu.example.com" in device.attributes
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_executor.backends.kubernetes.domain.device_objects import AttributeValue, Device

_TEXT: Final = r"""(?:"([^"\\]*)"|'([^'\\]*)')"""
_VALUE: Final = rf"(?:{_TEXT}|(-?\d+)|(true|false))"
_DRIVER: Final = re.compile(rf"device\s*\.\s*driver\s*==\s*{_TEXT}")
_ATTRIBUTE: Final = re.compile(
    rf"device\s*\.\s*attributes\s*\[\s*{_TEXT}\s*\]\s*\.\s*([A-Za-z_]\w*)\s*==\s*{_VALUE}"
)
_DOMAIN: Final = re.compile(rf"{_TEXT}\s+in\s+device\s*\.\s*attributes")
_AND: Final = re.compile(r"&&(?=(?:[^\"']|\"[^\"]*\"|'[^']*')*$)")
"""`&&` outside of texts."""


class UnreadableSelector(ValueError):
    """A selector has another form; the message names it."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What a device must be. `driver`: of this driver. `domain`: with attributes of this domain.

    `attribute`: the attribute of this name in the domain has this `value`.
    """

    driver: str = ""
    domain: str = ""
    attribute: str = ""
    value: AttributeValue | None = None


def read_selectors(expressions: Iterable[str]) -> tuple[Condition, ...]:
    """The conditions of all selectors of a class. Raises `UnreadableSelector`."""
    return tuple(_read_condition(part) for expression in expressions for part in _split(expression))


def matches(conditions: Iterable[Condition], driver: str, device: Device) -> bool:
    """Whether a device of this driver meets all conditions.

    The name of an attribute without a domain is in the domain of the driver.
    """
    return all(_is_met(condition, driver, device) for condition in conditions)


def _is_met(condition: Condition, driver: str, device: Device) -> bool:
    if condition.driver:
        return driver == condition.driver
    domain = condition.domain
    if not condition.attribute:
        domains = (name.rpartition("/")[0] or driver for name in device.attributes)
        return domain in domains
    found = device.attributes.get(f"{domain}/{condition.attribute}")
    if found is None and domain == driver:
        found = device.attributes.get(condition.attribute)
    if found is None:
        return False
    value = found.value
    return type(value) is type(condition.value) and value == condition.value


def _split(expression: str) -> list[str]:
    return [part.strip() for part in _AND.split(expression)]


def _read_condition(part: str) -> Condition:
    while part.startswith("(") and part.endswith(")"):
        part = part[1:-1].strip()
    if found := _DRIVER.fullmatch(part):
        return Condition(driver=_text(found[1], found[2]))
    if found := _DOMAIN.fullmatch(part):
        return Condition(domain=_text(found[1], found[2]))
    if found := _ATTRIBUTE.fullmatch(part):
        domain, name = _text(found[1], found[2]), found[3]
        return Condition(domain=domain, attribute=name, value=_value(*found.groups()[3:]))
    raise UnreadableSelector(
        f"the condition {part!r} has another form than device.driver == TEXT or"
        " device.attributes[TEXT].NAME == VALUE"
    )


def _text(double: str | None, single: str | None) -> str:
    return double if double is not None else single or ""


def _value(
    double: str | None, single: str | None, number: str | None, truth: str | None
) -> AttributeValue:
    if number is not None:
        return int(number)
    if truth is not None:
        return truth == "true"
    return _text(double, single)
