"""Secrets of queues: names, never values."""

from collections.abc import Mapping

from fairlead.calls import call_effects, request_building
from fairlead.calls.call_effects import Flow
from fairlead.models.job_models import Answer, Sent


class Secret(Answer, frozen=True, kw_only=True):
    """A secret of a queue. Jobs refer to its values by its name and a key."""

    name: str
    keys: tuple[str, ...] = ()
    changed_by: str = ""
    changed_at: str | None = None


class _Secrets(Answer, frozen=True, kw_only=True):
    secrets: tuple[Secret, ...] = ()


class SecretValues(Sent, frozen=True, kw_only=True):
    """The values of a secret."""

    values: Mapping[str, str]


def set_secret(queue: str, name: str, values: Mapping[str, str]) -> Flow[None]:
    """Create a secret of a queue, or replace all its values."""
    body = SecretValues(values=dict(values))
    yield from request_building.done(request_building.post(_path(queue, name), body, method="PUT"))


def secrets(queue: str) -> Flow[None]:
    """Iterates over the secrets of a queue; their values are never shown."""
    reply = request_building.accepted(
        (yield from request_building.answered(request_building.get(_path(queue))))
    )
    for secret in request_building.decode(reply.body, _Secrets).secrets:
        yield from call_effects.emit(secret)


def delete_secret(queue: str, name: str) -> Flow[None]:
    """Remove a secret. Raises `NotFound`."""
    yield from request_building.done(
        call_effects.Request(method="DELETE", path=request_building.API + _path(queue, name))
    )


def _path(queue: str, name: str | None = None) -> str:
    path = f"/queues/{request_building.part(queue)}/secrets"
    return path if name is None else f"{path}/{request_building.part(name)}"
