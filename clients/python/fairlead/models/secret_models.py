"""Secrets of queues: names, never values."""

from collections.abc import Mapping

from fairlead.models.job_models import Answer, Sent


class Secret(Answer, frozen=True, kw_only=True):
    """A secret of a queue. Jobs refer to its values by its name and a key."""

    name: str
    keys: tuple[str, ...] = ()
    changed_by: str = ""
    changed_at: str | None = None


class SecretValues(Sent, frozen=True, kw_only=True):
    """The values of a secret."""

    values: Mapping[str, str]
