"""Secrets of queues. The server never returns their values."""

from collections.abc import Mapping

from fairlead.models.model_bases import RequestModel, ResponseModel


class Secret(ResponseModel, frozen=True, kw_only=True):
    """A secret of a queue. A job refers to a value by the secret's name and a key."""

    name: str
    keys: tuple[str, ...] = ()
    changed_by: str = ""
    changed_at: str | None = None


class SecretValues(RequestModel, frozen=True, kw_only=True):
    """The values of a secret."""

    values: Mapping[str, str]
