"""Write docs/reference/: the fields of a job and the settings of each service, from the code.

    python -m tools.reference

Types, bounds and defaults are those of the structs that requests and settings are decoded into; the
meanings of settings are in the docstrings of these structs, the meanings of a job's fields in this
module.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec import inspect as types

from fairlead_common.service.settings import Settings
from fairlead_executor.service.settings import ExecutorSettings
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_submit.domain import request_types
from fairlead_submit.service.settings import SubmitSettings

FOLDER: Final = Path(__file__).parent.parent / "docs" / "reference"

JOB: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clientId": "Your name for the job, unique in its queue and job set. Submitting it again"
        " names the same job and creates nothing.",
        "priority": "Jobs of a higher priority are scheduled first within a queue and class."
        " Default 0.",
        "priorityClass": "How urgent it is, and by which rules its run is preempted. Default:"
        " the setting `jobDefaults.priorityClass`.",
        "pool": "The pool of nodes in which it runs. Default `default`.",
        "namespace": "The namespace of its pods. Default `default`.",
        "after": "Client ids or ids of jobs of the same job set, and arrays of it, below. It waits"
        " until all of them succeeded, and is cancelled when one ends otherwise.",
        "hold": "It waits until it is released (`fairlead release`).",
        "startAfter": "It waits until this time, as `2026-12-01T08:00:00Z`.",
        "maxQueueSeconds": "It is cancelled when it has waited this long.",
        "maxRuntimeSeconds": "A run is stopped after this time, and ends with the category"
        " `deadline`. Default: the setting `jobDefaults.maxRuntimeSeconds`.",
        "labels": "Names and values to find it by; its pod has them too.",
        "annotations": "As labels, for longer texts.",
        "whenInfeasible": "What happens to it if no known node could ever run it."
        " Default `reject`.",
        "onPreemption": "What happens to it when its run is preempted. Default `requeue`.",
        "checkpointIntervalSeconds": "How often it saves its work: the scheduler considers the work"
        " that a preemption would lose when it chooses runs to preempt.",
        "gang": "The gang that it is a member of, below.",
        "array": "It is many tasks, below.",
        "retry": "Whether failed runs are tried again, below.",
        "podSpec": "The pod, as Kubernetes describes it. What the scheduler does not read passes"
        " through unchecked. Instead of the short form.",
        "image": "Short form: the container's image.",
        "command": "Short form: the command and its arguments.",
        "env": "Short form: environment variables.",
        "workingDir": "Short form: the folder that the command starts in, an absolute path."
        " Default: a new, empty folder of the run (on this machine), or the image's own.",
        "cpu": "Short form: cores, as 2 or `500m`.",
        "memory": "Short form: memory, as `512Mi` or `2Gi`.",
        "gpu": "Short form: how many GPUs (`nvidia.com/gpu`).",
        "services": "Services that each run has, below; on Kubernetes only.",
        "ingresses": "Ingresses that each run has, below; on Kubernetes only.",
    }
)
GANG: Final[Mapping[str, str]] = MappingProxyType(
    {
        "name": "Its name, unique in queue and job set.",
        "size": "How many members it has, the same for all members; a member with another size"
        " fails.",
        "minSize": "The number of members that is enough to start. Default: all.",
        "uniformityLabel": "A label of nodes: all members run on nodes with the same value.",
        "member": "Its number among the members, from 0. Default: its position, if a request"
        " holds all members; otherwise none.",
        "rest": "What happens to members above `minSize` that could not be placed. Default `wait`.",
    }
)
ARRAY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "count": "Its size, 1 to 10,000,000: indexes of tasks are below it.",
        "indexes": "The tasks that there are, as `0-9,20-29:2`. Default: all below `count`.",
        "maxRunning": "How many tasks run at a time, at most. Default: no limit.",
        "afterCorresponding": "An array of the job set: each task waits until its task with the"
        " same index has succeeded, and is cancelled when that ends otherwise.",
    }
)
AFTER_ARRAY: Final[Mapping[str, str]] = MappingProxyType(
    {"array": "The client id or id of an array of the job set."}
)
RETRY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "limit": "The number of failed runs after which another one follows.",
        "on": "After failures of these categories. Default: all but `start`, `deadline` and"
        " `admission`. An empty list: after none.",
        "memoryFactor": "After `oom`, the memory request of the next run is multiplied by this.",
        "avoidNode": "The next run is placed on another node if there is one.",
    }
)
NETWORK_OBJECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "name": "Its name within the job; the object of a run is named `<name>-<run>`. Backends of"
        " ingresses name services of the job by it.",
        "annotations": "Its annotations.",
        "spec": "The `spec` of the Service or Ingress as Kubernetes describes it. The `selector` of"
        " a service is set to the pod of the run.",
    }
)
SUBMISSION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "queue": "The queue of all of them.",
        "jobSet": "The job set of all of them.",
        "defaults": "A job whose fields apply to every job that does not have them.",
        "jobs": "The jobs.",
    }
)

SERVICES: Final[Mapping[str, type[Settings]]] = MappingProxyType(
    {
        "submit": SubmitSettings,
        "scheduler": SchedulerSettings,
        "executor": ExecutorSettings,
        "lookout": LookoutSettings,
    }
)
_SNAKE: Final = re.compile(r"`([a-z]+(?:_[a-z]+)+)`")
"""A field as code names it, in a docstring."""


def documents() -> dict[str, str]:
    """The text of each document, by its file's name."""
    return {"jobs.md": jobs(), "settings.md": settings()}


def jobs() -> str:
    """The fields of a submission."""
    return "\n".join(
        [
            "# The fields of a job",
            "",
            "Made from the code by `python -m tools.reference`. An absent field and `null` mean the"
            " same. Unknown fields are errors.",
            "",
            "A file for `fairlead submit`, and the body of `POST /api/v1/jobs`:",
            "",
            *_described(request_types.Submission, SUBMISSION),
            "",
            "## A job",
            "",
            "Either a `podSpec` or the short form (`image`, `command`, `env`, `cpu`, `memory`,"
            " `gpu`), which describes a pod of one container.",
            "",
            *_described(request_types.Job, JOB),
            "",
            "## `gang`",
            "",
            *_described(request_types.Gang, GANG),
            "",
            "## `array`",
            "",
            *_described(request_types.Array, ARRAY),
            "",
            "## An array in `after`",
            "",
            'As `after: [fetch, {"array": "scan"}]`: it waits until all tasks of the array have'
            " succeeded, and is cancelled as soon as one has ended otherwise.",
            "",
            *_described(request_types.AfterArray, AFTER_ARRAY),
            "",
            "## `retry`",
            "",
            *_described(request_types.Retry, RETRY),
            "",
            "## `services` and `ingresses`",
            "",
            "Each run on Kubernetes has its own, which Kubernetes removes together with its pod"
            " ([an example](../kubernetes.md#services-and-ingresses)). A job with them fails on"
            " clusters of other backends.",
            "",
            *_described(request_types.NetworkObject, NETWORK_OBJECT),
            "",
        ]
    )


def settings() -> str:
    """All settings of all services."""
    common = {field.name for field in msgspec.structs.fields(Settings)}
    lines = [
        "# Settings",
        "",
        "Made from the code by `python -m tools.reference`. A service reads its settings from the"
        " YAML file that `FAIRLEAD_SETTINGS` names, where a setting is called `databaseUrl`, and"
        " from the environment, where it is `FAIRLEAD_DATABASE_URL` (lists and mappings as JSON)."
        " The environment has priority. Several services can share one file: settings of one of"
        " them are in a section of its name, as `scheduler:`. An unknown setting is an error.",
        "",
        "## Every service",
        "",
        *_of(Settings),
    ]
    for name, kind in SERVICES.items():
        lines += ["", f"## {name}", "", *_of(kind, leave_out=common)]
        own = kind(**{}).http_port
        lines += ["", f"The default of its `httpPort` is {own}."]
    lines += ["", "## Parts of settings"]
    for part in list_nested_structs():
        lines += ["", f"### {part.__name__}", "", *_of(part)]
    return "\n".join([*lines, ""])


def list_nested_structs() -> list[type[msgspec.Struct]]:
    """The structs of fields of settings, without repetition, in the order of their use."""
    found: dict[type[msgspec.Struct], None] = {}
    waiting: list[type[msgspec.Struct]] = [Settings, *SERVICES.values()]
    for kind in waiting:
        for field in _fields(kind).values():
            for inner in _structs(field.type):
                if inner not in found:
                    found[inner] = None
                    waiting.append(inner)
    return list(found)


def _structs(kind: types.Type) -> Iterator[type[msgspec.Struct]]:
    match kind:
        case types.StructType():
            yield kind.cls
        case types.Metadata():
            yield from _structs(kind.type)
        case types.UnionType():
            for inner in kind.types:
                yield from _structs(inner)
        case types.ListType() | types.VarTupleType():
            yield from _structs(kind.item_type)
        case types.DictType():
            yield from _structs(kind.value_type)
        case _:
            return


def _described(kind: type[msgspec.Struct], meaning: Mapping[str, str]) -> Iterator[str]:
    """A table of fields of a request. Raises `ValueError` if one of them has no meaning."""
    fields = _fields(kind)
    if fields.keys() != meaning.keys():
        raise ValueError(f"{kind.__name__} and its descriptions in tools/reference.py differ")
    required = request_types.REQUIRED.get(kind, ())
    yield "| field | type | meaning |"
    yield "| --- | --- | --- |"
    for name, field in fields.items():
        needed = "**Required.** " if name in required else ""
        yield f"| `{name}` | {_type(field.type)} | {needed}{meaning[name]} |"


def _of(kind: type[msgspec.Struct], leave_out: set[str] | None = None) -> Iterator[str]:
    """The docstring of a struct of settings, and a table of its fields."""
    text = " ".join((inspect.getdoc(kind) or "").split())
    yield _SNAKE.sub(lambda found: f"`{_camel(found[1])}`", text)
    yield ""
    yield "| setting | type | default |"
    yield "| --- | --- | --- |"
    for name, field in _fields(kind).items():
        if field.name not in (leave_out or ()):
            yield f"| `{name}` | {_type(field.type)} | {_default(field)} |"


def _fields(kind: type[msgspec.Struct]) -> dict[str, types.Field]:
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    return {field.encode_name: field for field in info.fields}


def _type(kind: types.Type) -> str:
    """A type as people read it."""
    match kind:
        case types.Metadata():
            return _type(kind.type)
        case types.UnionType():
            return " or ".join(dict.fromkeys(filter(None, map(_type, kind.types))))
        case types.NoneType():
            return ""
        case types.BoolType():
            return "true or false"
        case types.StrType():
            return f"text{_bounds(kind.min_length, kind.max_length, ' characters')}"
        case types.IntType():
            return f"whole number{_bounds(kind.ge, kind.le)}"
        case types.FloatType():
            above = f" above {kind.gt:g}" if kind.gt is not None else ""
            return f"number{above}{_bounds(kind.ge, kind.le)}"
        case types.LiteralType():
            return _words(kind.values)
        case types.EnumType():
            return _words(member.value for member in kind.cls)
        case types.ListType() | types.VarTupleType():
            most = f" (at most {kind.max_length:,})" if kind.max_length else ""
            return f"list of {_type(kind.item_type)}{most}"
        case types.DictType():
            return f"mapping of {_type(kind.key_type)} to {_type(kind.value_type)}"
        case types.StructType():
            return f"`{kind.cls.__name__}`"
        case types.RawType() | types.AnyType():
            return "anything"
        case _:
            raise TypeError(f"no description for {kind}")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _words(values: Any) -> str:  # of an enum or a literal: whatever they are
    return ", ".join(f"`{value}`" for value in values)


def _bounds(least: float | None, most: float | None, unit: str = "") -> str:
    match least, most:
        case (None, None):
            return ""
        case (_, None):
            return "" if unit else f", at least {least:,}"
        case (None, _):
            return f", at most {most:,}{unit}"
        case _:
            return f", at most {most:,}{unit}" if unit else f" from {least:,} to {most:,}"


def _default(field: types.Field) -> str:
    if field.default_factory is not NODEFAULT:
        return _format_default(field.default_factory())
    if field.default is NODEFAULT:
        return "**required**" if field.required else "as for all pools"
    return _format_default(field.default)


def _format_default(value: object) -> str:
    match value:
        case None | "":
            return "none"
        case msgspec.Struct():
            return "see below"
        case tuple() if value and isinstance(value[0], msgspec.Struct):
            return f"{len(value)}, see `{type(value[0]).__name__}`"
        case Enum() | str():
            return f"`{value}`"
        case _ if value is UNSET:
            return "none"
        case _:
            return f"`{msgspec.json.encode(value).decode()}`"


def main() -> None:
    """Write all documents."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in documents().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
