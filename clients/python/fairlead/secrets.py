"""Secrets of queues, as the API tells of them: names, never values."""

from collections.abc import Mapping

from fairlead import asking, steps
from fairlead.models import Answer, Sent
from fairlead.steps import Flow


class Secret(Answer, frozen=True, kw_only=True):
    """A secret of a queue. Jobs refer to its values by its name and a key."""

    name: str
    keys: tuple[str, ...] = ()
    changed_by: str = ""
    changed_at: str | None = None


class _Secrets(Answer, frozen=True, kw_only=True):
    secrets: tuple[Secret, ...] = ()


class SecretValues(Sent, frozen=True, kw_only=True):
    """What a secret is made of."""

    values: Mapping[str, str]


def set_secret(queue: str, name: str, values: Mapping[str, str]) -> Flow[None]:
    """Make a secret of a queue, or replace all its values."""
    body = SecretValues(values=dict(values))
    yield from asking.done(asking.post(_path(queue, name), body, method="PUT"))


def secrets(queue: str) -> Flow[None]:
    """Iterates over the secrets of a queue; their values are never shown."""
    reply = asking.accepted((yield from asking.answered(asking.get(_path(queue)))))
    for secret in asking.decode(reply.body, _Secrets).secrets:
        yield from steps.emit(secret)


def delete_secret(queue: str, name: str) -> Flow[None]:
    """Remove a secret. Raises `NotFound`."""
    yield from asking.done(steps.Request(method="DELETE", path=asking.API + _path(queue, name)))


def _path(queue: str, name: str | None = None) -> str:
    path = f"/queues/{asking.part(queue)}/secrets"
    return path if name is None else f"{path}/{asking.part(name)}"
