"""The parts of a job to submit."""

from collections.abc import Mapping

from fairlead.models.model_bases import RequestModel


class Gang(RequestModel, frozen=True, kw_only=True):
    """Jobs of one queue and job set that start together; `member` counts from 0."""

    name: str
    size: int
    min_size: int | None = None
    uniformity_label: str | None = None
    rest: str | None = None
    member: int | None = None


class Array(RequestModel, frozen=True, kw_only=True):
    """Many tasks: those with `indexes` ("0-9,20-29:2"; default: all) below `count`, at most
    `max_running` at a time; `after_corresponding`: an array whose tasks they follow by index."""

    count: int
    indexes: str | None = None
    max_running: int | None = None
    after_corresponding: str | None = None


class AfterArray(RequestModel, frozen=True, kw_only=True):
    """In `after`: all tasks of an array of the job set (client id or id)."""

    array: str


class Retry(RequestModel, frozen=True, kw_only=True):
    """The retry policy of a job: at most `limit` more runs after failures of the categories `on`.

    The memory request is multiplied by `memory_factor` for each retry; with `avoid_node` a retry
    does not run on a node where the job has failed.
    """

    limit: int = 0
    on: tuple[str, ...] = ()
    memory_factor: float | None = None
    avoid_node: bool | None = None


class NetworkObject(RequestModel, frozen=True, kw_only=True):
    """A Service or Ingress of a job on Kubernetes. `spec` is the `spec` of the Kubernetes object.

    An Ingress refers to a Service of the job by its `name`.
    """

    name: str
    spec: Mapping[str, object]
    annotations: Mapping[str, str] | None = None
