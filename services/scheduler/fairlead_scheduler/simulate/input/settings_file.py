"""Reads the settings of a simulation: the scheduler's, and the configuration of queues.

The settings file of the services is valid: its `rules`, `priorityClasses` and
`retriesUnstartedMax` are read (from the top level or the section `scheduler`), and the settings of
servers are ignored. Rules are also permitted at the top level, as in worked cases, and `queues`
maps names to weight, cordon, limits, order and retry policy.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.service.settings import SECTIONS, SHARED
from fairlead_scheduler.cases import case_file
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.simulate.input import input_errors, yaml_documents
from fairlead_scheduler.simulate.input.input_errors import InputErrors
from fairlead_scheduler.simulate.input.job_lines import Retry
from fairlead_scheduler.simulate.input.yaml_documents import Document, Place
from fairlead_scheduler.state.pool_rules import Rules

_RULES: Final = {field.encode_name: field for field in msgspec.structs.fields(Rules)}
_SERVICE: Final = {field.encode_name: field for field in msgspec.structs.fields(SchedulerSettings)}
_AMOUNTS: Final = ("costMultipliers", "roundLimit", "floating", "scoreWeights")


class QueueForm(case_file.Queue):
    """The configuration of a queue: as in a case, and its retry policy."""

    retry_policy: Retry | None = None


class SimulationSettings(msgspec.Struct, frozen=True):
    """The settings of a simulation."""

    scheduler: SchedulerSettings = SchedulerSettings()
    queues: dict[str, Queue] = {}
    job_defaults: dict[str, Any] = {}
    """The setting `jobDefaults` of the section `submit`, not yet decoded."""

    def for_pool(self, pool: str) -> "SimulationSettings":
        """These settings with the rules of the pool."""
        rules = self.scheduler.rules.for_pool(pool)
        return msgspec.structs.replace(
            self, scheduler=msgspec.structs.replace(self.scheduler, rules=rules)
        )


def read_settings(path: Path | None, errors: InputErrors) -> SimulationSettings:
    """The settings of a file; without a file the defaults of the service."""
    document = None if path is None else yaml_documents.read_document(path, errors)
    if document is None or document.value is None:
        return SimulationSettings()
    if not isinstance(document.value, dict):
        errors.add(document.file, 1, "", "is not a mapping of settings")
        return SimulationSettings()
    before = errors.count
    values, places = _collect_settings(document, errors)
    rules = {name: values.pop(name) for name in list(values) if name in _RULES}
    queues = {
        str(name): queue
        for name, queue_values in cast(dict[str, Any], values.pop("queues", {})).items()
        if (queue := _read_queue(document, str(name), queue_values, errors)) is not None
    }
    if errors.count > before:
        return SimulationSettings()
    rules = _use_full_names(rules)
    pools = cast(Mapping[str, dict[str, object]], rules.get("pools", {}))
    rules["pools"] = {name: _use_full_names(pool) for name, pool in pools.items()}
    settings = msgspec.convert({**values, "rules": rules}, SchedulerSettings)
    found = [
        (error.pointer.removeprefix("rules."), error.detail) for error in settings.find_errors()
    ]
    for field, reason in [*found, *_check_queues(settings, queues)]:
        first, *inner = _split_field(field)
        place = next((at for at in places if at[-1] == first), (first,))
        errors.add(document.file, document.line(*place, *inner), field, reason)
    return SimulationSettings(settings, queues, _read_job_defaults(document, errors))


def _read_job_defaults(document: Document, errors: InputErrors) -> dict[str, Any]:
    found = _get_value(document.value, ("submit", "jobDefaults"))
    if found is None or isinstance(found, dict):
        return found or {}
    line = document.line("submit", "jobDefaults")
    errors.add(document.file, line, "submit.jobDefaults", "is not a mapping of settings")
    return {}


def _use_full_names(rules: Mapping[str, object]) -> dict[str, object]:
    """Rules with the full names of resources. `_add_setting` has checked the amounts."""
    named = dict(rules)
    for name in _AMOUNTS:
        if name in named:
            named[name] = case_file.use_full_names(cast(Mapping[str, Any], named[name]))
    for name in ("classLimits", "ceiling"):
        limits = cast(Mapping[str, Mapping[str, Any]], named.get(name, {}))
        if limits:
            named[name] = {
                class_name: case_file.use_full_names(amounts)
                for class_name, amounts in limits.items()
            }
    return named


def _collect_settings(
    document: Document, errors: InputErrors
) -> tuple[dict[str, object], list[Place]]:
    """The settings of a simulation by name, and their places; a section overrides the top level."""
    content = cast(dict[str, Any], document.value)
    values: dict[str, object] = {}
    places: list[Place] = []
    for place in _list_places(content):
        name, value = str(place[-1]), _get_value(content, place)
        if name in _RULES:
            _add_setting(document, place, _RULES[name].type, value, values, errors)
        elif name == "queues":
            _add_setting(document, place, dict[str, dict[str, Any]], value, values, errors)
        elif name in ("priorityClasses", "retriesUnstartedMax"):
            _add_setting(document, place, _SERVICE[name].type, value, values, errors)
        elif name not in _SERVICE and name not in (*SECTIONS, *SHARED, "rules"):
            reason = "is not a setting of the scheduler, not one of its rules, and not `queues`"
            errors.add(document.file, document.line(*place), ".".join(map(str, place)), reason)
        elif name in ("rules", "scheduler") and not isinstance(value, dict):
            errors.add(document.file, document.line(*place), name, "is not a mapping of settings")
        places.insert(0, place)
    return values, places


def _list_places(content: Mapping[str, Any]) -> Iterator[Place]:
    """Settings at the top level, in `rules`, in the section, and in the rules of the section."""
    for outer in ((), ("rules",), ("scheduler",), ("scheduler", "rules")):
        inner = _get_value(content, outer)
        if isinstance(inner, dict):
            yield from ((*outer, str(name)) for name in inner)


def _get_value(content: object, place: Place) -> object:
    for name in place:
        content = content.get(name) if isinstance(content, dict) else None
    return content


def _add_setting(
    document: Document,
    place: Place,
    kind: Any,  # the type of the setting
    value: object,
    values: dict[str, object],
    errors: InputErrors,
) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        name = ".".join(map(str, place))
        errors.add(document.file, document.line(*place), name, input_errors.describe_error(error))
        return
    values[str(place[-1])] = value


def _read_queue(document: Document, name: str, values: object, errors: InputErrors) -> Queue | None:
    found = input_errors.find_field_errors(values, QueueForm)
    for field, reason in found:
        line = document.line("queues", name, field)
        errors.add(document.file, line, f"queues.{name}.{field}", reason)
    if found:
        return None
    form = msgspec.convert(values, QueueForm)
    limits = {name: case_file.use_full_names(amounts) for name, amounts in form.limits.items()}
    return Queue(
        name=name,
        weight=form.weight,
        cordoned=form.cordoned,
        limits=limits,
        order=form.order,
        retry_policy=None if form.retry_policy is None else form.retry_policy.to_policy(),
    )


# Checks beyond types --------------------------------------------------------------------------


def _split_field(field: str) -> Place:
    """`priorityClasses`, 0, `value` for `priorityClasses[0].value`."""
    found = re.findall(r"\[(\d+)\]|([^.\[\]]+)", field)
    return tuple(int(number) if number else name for number, name in found)


def _check_queues(
    settings: SchedulerSettings, queues: Mapping[str, Queue]
) -> Iterator[tuple[str, str]]:
    names = {item.name for item in settings.priority_classes}
    for name, queue in queues.items():
        if not (math.isfinite(queue.weight) and 0 < queue.weight <= 1e9):
            yield f"queues.{name}.weight", f"is {queue.weight}; a number above 0 is expected"
        for class_name, limits in queue.limits.items():
            place = f"queues.{name}.limits.{class_name}"
            if class_name not in names:
                yield place, "there is no such priority class"
            for resource, limit in limits.items():
                if isinstance(limit, str):
                    try:
                        quantities.parse_quantity(resource, limit, round_up=False)
                    except ValueError as error:
                        yield f"{place}.{resource}", str(error)
                elif not (math.isfinite(limit) and limit >= 0):
                    yield f"{place}.{resource}", f"is {limit}; a fraction of the pool is expected"


def list_classes(settings: SchedulerSettings) -> tuple[PriorityClass, ...]:
    """The priority classes of the settings, or the default classes."""
    return settings.priority_classes or DEFAULT_CLASSES


def list_class_names(settings: SchedulerSettings) -> list[str]:
    """The names of the priority classes."""
    return [item.name for item in list_classes(settings)]
