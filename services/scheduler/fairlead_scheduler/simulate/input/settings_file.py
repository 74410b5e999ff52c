"""Reads the settings of a simulation: those of the scheduler, and what is configured of queues.

The service's own file may be given as it is: its `rules`, `priorityClasses` and
`retriesUnstartedMax` count (at the top or in its section `scheduler`), what concerns servers is
passed over. Rules may also stand at the top by themselves, as in worked cases, and `queues` maps
names to weight, cordon, limits and retry policy.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from fairlead_common.domain import quantities
from fairlead_common.domain.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.service.settings import SECTIONS, SHARED
from fairlead_scheduler.cases import case_file
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.simulate.input import input_errors as faulty
from fairlead_scheduler.simulate.input import yaml_documents
from fairlead_scheduler.simulate.input.input_errors import Faults
from fairlead_scheduler.simulate.input.job_lines import Retry
from fairlead_scheduler.simulate.input.yaml_documents import Document, Place
from fairlead_scheduler.state.pool_rules import Rules

_RULES: Final = {field.encode_name: field for field in msgspec.structs.fields(Rules)}
_SERVICE: Final = {field.encode_name: field for field in msgspec.structs.fields(SchedulerSettings)}
_AMOUNTS: Final = ("costMultipliers", "roundLimit", "floating")


class QueueOf(case_file.Queue):
    """What is configured of a queue here: as in a case, and what becomes of failed runs."""

    retry_policy: Retry | None = None


class Given(msgspec.Struct, frozen=True):
    """The settings of a simulation."""

    settings: SchedulerSettings = SchedulerSettings()
    queues: dict[str, Queue] = {}
    job_defaults: dict[str, Any] = {}
    """The setting `jobDefaults` of the section `submit`, as it was read."""

    def of(self, pool: str) -> "Given":
        """The same for a simulation of this pool."""
        rules = self.settings.rules.for_pool(pool)
        return msgspec.structs.replace(
            self, settings=msgspec.structs.replace(self.settings, rules=rules)
        )


def read(path: Path | None, faults: Faults) -> Given:
    """The settings of a file; the service's defaults without one."""
    document = None if path is None else yaml_documents.read(path, faults)
    if document is None or document.value is None:
        return Given()
    if not isinstance(document.value, dict):
        faults.add(document.file, 1, "", "is no mapping of settings")
        return Given()
    before = faults.count
    values, places = _gathered(document, faults)
    rules = {name: values.pop(name) for name in list(values) if name in _RULES}
    queues = {
        str(name): queue
        for name, of in cast(dict[str, Any], values.pop("queues", {})).items()
        if (queue := _queue(document, str(name), of, faults)) is not None
    }
    if faults.count > before:
        return Given()
    rules = _named(rules)
    pools = cast(Mapping[str, dict[str, object]], rules.get("pools", {}))
    rules["pools"] = {name: _named(of) for name, of in pools.items()}
    settings = msgspec.convert({**values, "rules": rules}, SchedulerSettings)
    found = [(fault.pointer.removeprefix("rules."), fault.detail) for fault in settings.faults()]
    for field, reason in [*found, *_faults_of_queues(settings, queues)]:
        first, *inner = _parts(field)
        place = next((at for at in places if at[-1] == first), (first,))
        faults.add(document.file, document.line(*place, *inner), field, reason)
    return Given(settings, queues, _job_defaults(document, faults))


def _job_defaults(document: Document, faults: Faults) -> dict[str, Any]:
    found = _at(document.value, ("submit", "jobDefaults"))
    if found is None or isinstance(found, dict):
        return found or {}
    line = document.line("submit", "jobDefaults")
    faults.add(document.file, line, "submit.jobDefaults", "is not a mapping of settings")
    return {}


def _named(rules: Mapping[str, object]) -> dict[str, object]:
    """Rules with the full names of resources. Amounts are as `_take` has found them."""
    made = dict(rules)
    for name in _AMOUNTS:
        if name in made:
            made[name] = case_file.named(cast(Mapping[str, Any], made[name]))
    if "classLimits" in made:
        of_classes = cast(Mapping[str, Mapping[str, Any]], made["classLimits"])
        made["classLimits"] = {name: case_file.named(of) for name, of in of_classes.items()}
    return made


def _gathered(document: Document, faults: Faults) -> tuple[dict[str, object], list[Place]]:
    """What counts here, by name, and where it stands; a section counts more than the top."""
    content = cast(dict[str, Any], document.value)
    values: dict[str, object] = {}
    places: list[Place] = []
    for place in _places(content):
        name, value = str(place[-1]), _at(content, place)
        if name in _RULES:
            _take(document, place, _RULES[name].type, value, values, faults)
        elif name == "queues":
            _take(document, place, dict[str, dict[str, Any]], value, values, faults)
        elif name in ("priorityClasses", "retriesUnstartedMax"):
            _take(document, place, _SERVICE[name].type, value, values, faults)
        elif name not in _SERVICE and name not in (*SECTIONS, *SHARED, "rules"):
            reason = "is no setting of the scheduler, nor one of its rules, nor `queues`"
            faults.add(document.file, document.line(*place), ".".join(map(str, place)), reason)
        elif name in ("rules", "scheduler") and not isinstance(value, dict):
            faults.add(document.file, document.line(*place), name, "is no mapping of settings")
        places.insert(0, place)
    return values, places


def _places(content: Mapping[str, Any]) -> Iterator[Place]:
    """Settings at the top, then those of `rules`, then those of the section, then its rules."""
    for outer in ((), ("rules",), ("scheduler",), ("scheduler", "rules")):
        inner = _at(content, outer)
        if isinstance(inner, dict):
            yield from ((*outer, str(name)) for name in inner)


def _at(content: object, place: Place) -> object:
    for name in place:
        content = content.get(name) if isinstance(content, dict) else None
    return content


def _take(
    document: Document,
    place: Place,
    kind: Any,  # whatever type the setting has
    value: object,
    values: dict[str, object],
    faults: Faults,
) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        name = ".".join(map(str, place))
        faults.add(document.file, document.line(*place), name, faulty.plain(error))
        return
    values[str(place[-1])] = value


def _queue(document: Document, name: str, of: object, faults: Faults) -> Queue | None:
    found = faulty.per_field(of, QueueOf)
    for field, reason in found:
        line = document.line("queues", name, field)
        faults.add(document.file, line, f"queues.{name}.{field}", reason)
    if found:
        return None
    given = msgspec.convert(of, QueueOf)
    limits = {name: case_file.named(amounts) for name, amounts in given.limits.items()}
    return Queue(
        name=name,
        weight=given.weight,
        cordoned=given.cordoned,
        limits=limits,
        retry_policy=None if given.retry_policy is None else given.retry_policy.policy(),
    )


# What no type says --------------------------------------------------------------------------


def _parts(field: str) -> Place:
    """`priorityClasses`, 0, `value` for `priorityClasses[0].value`."""
    found = re.findall(r"\[(\d+)\]|([^.\[\]]+)", field)
    return tuple(int(number) if number else name for number, name in found)


def _faults_of_queues(
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


def classes_of(settings: SchedulerSettings) -> tuple[PriorityClass, ...]:
    """The priority classes of the settings, or those that every installation has."""
    return settings.priority_classes or DEFAULT_CLASSES


def class_names(settings: SchedulerSettings) -> list[str]:
    """The priority classes that jobs may name."""
    return [item.name for item in classes_of(settings)]
