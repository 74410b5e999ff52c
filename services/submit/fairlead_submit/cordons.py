"""Operators' marks on executors and their nodes: rows with versions, told to the log."""

from typing import Final

import msgspec

from fairlead_common import configuration, db
from fairlead_common.configuration import Cordon
from fairlead_common.db.locks import LockClass
from fairlead_submit.relay import Told, tell
from fairlead_submit.store import SQL

_encoder: Final = msgspec.json.Encoder()


class Cordons:
    """Marks and unmarks. Raises `DatabaseUnavailable` when Postgres is away."""

    def __init__(self, pool: db.Pool, told: Told) -> None:
        """`told` is called after a change was put into the outbox."""
        self._pool = pool
        self._told = told

    async def mark(self, mark: Cordon) -> Cordon:
        """Have it so, and return it with its version; nothing changes when it is so already."""
        key = configuration.key(mark)
        with db.reaching():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_cordon"], LockClass.CORDON, key)
                value = await connection.fetchval(SQL["get_cordon"], key)
                if value is not None:
                    known = configuration.decode(value)
                    assert isinstance(known, Cordon)
                    if msgspec.structs.replace(mark, version=known.version, by=known.by) == known:
                        return known
                version = await connection.fetchval(SQL["next_version"])
                made = msgspec.structs.replace(mark, version=version)
                await connection.execute(SQL["put_cordon"], key, version, _encoder.encode(made))
                await tell(connection, made)
        self._told()
        return made
