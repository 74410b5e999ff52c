"""The secrets of queues in Postgres: names can be listed, values are stored sealed."""

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_common import db
from fairlead_common.domain import timestamps
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests.decoding import validation_problem
from fairlead_common.domain.secret_values import Keyring
from fairlead_submit.domain.secret_variables import NO_KEY, QueueSecrets, Values
from fairlead_submit.store.schema import SQL

SECRETS_MAX: Final = 1_000


class SecretView(msgspec.Struct, frozen=True, rename="camel"):
    """A secret without its values."""

    name: str
    keys: list[str]
    changed_by: str
    changed_at: str


class SecretStore:
    """Reads and changes them; `keyring` seals."""

    def __init__(self, pool: db.Pool, keyring: Keyring) -> None:
        self._pool = pool
        self._keyring = keyring

    async def list(self, queue: str) -> list[SecretView]:
        """The secrets of a queue by name."""
        with db.translate_errors():
            rows = await self._pool.fetch(SQL["list_secrets"], queue)
        return [
            SecretView(
                row["name"],
                sorted(msgspec.json.decode(row["sealed"], type=dict[str, str])),
                row["changed_by"],
                timestamps.rfc3339(round(row["changed_at"].timestamp() * 1000)),
            )
            for row in rows
        ]

    async def put(self, queue: str, name: str, values: Mapping[str, str], by: str) -> None:
        """Make or replace a secret. Raises a 422 `Problem`."""
        if not self._keyring:
            raise validation_problem([FieldError("/values", NO_KEY)])
        sealed = {key: self._keyring.seal(queue, value) for key, value in values.items()}
        text = msgspec.json.encode(sealed).decode()
        with db.translate_errors():
            done = await self._pool.fetchval(SQL["put_secret"], queue, name, text, by, SECRETS_MAX)
        if done is None:
            raise validation_problem(
                [FieldError("", f"the queue already has {SECRETS_MAX} secrets; delete one first")]
            )

    async def delete(self, queue: str, name: str) -> None:
        """Remove a secret. Raises a 404 `Problem`."""
        with db.translate_errors():
            done = await self._pool.fetchval(SQL["delete_secret"], queue, name)
        if done is None:
            raise Problem("not-found", f"Queue {queue!r} has no secret {name!r}.")

    async def delete_all(self, queue: str) -> None:
        """Delete the secrets of a deleted queue: a new queue of that name must not have them."""
        with db.translate_errors():
            await self._pool.execute(SQL["delete_secrets"], queue)

    async def values(self, queue: str) -> Values:
        """The sealed values of a queue."""
        with db.translate_errors():
            rows = await self._pool.fetch(SQL["list_secrets"], queue)
        return {
            row["name"]: msgspec.json.decode(row["sealed"], type=dict[str, str]) for row in rows
        }

    async def get_queue_secrets(self, queue: str) -> QueueSecrets:
        """Seals the values of jobs of this queue."""
        return QueueSecrets(self._keyring, queue, await self.values(queue))
