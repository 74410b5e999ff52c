"""Write the OpenAPI document of the whole API, both services, into docs/openapi.json.

    python tools/openapi.py             # rewrites it; a test says when it is out of date

It starts a Postgres and a Valkey of its own for a moment, since services are opened on them.
"""

import asyncio
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fairlead_common.web import openapi
from fairlead_lookout.service.service import Service as Lookout
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_standalone.processes.child_process import RunningProcess
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import SETTINGS_OF_TESTS, Postgres
from fairlead_standalone.servers.embedded_valkey import Valkey
from fairlead_standalone.service import web
from fairlead_submit.service.service import Service as Submit
from fairlead_submit.service.settings import SubmitSettings

DOCUMENT: Final = Path(__file__).parent.parent / "docs" / "openapi.json"


async def made(database: str, redis: str) -> bytes:
    """The document of services on these servers."""
    own = SubmitSettings(database_url=database, log_url=database)
    also = LookoutSettings(database_url=database, log_url=database, redis_url=redis)
    async with Submit.open(own) as submit, await Lookout.open(also) as lookout:
        return openapi.text(web.build(submit, lookout, own).openapi())


@contextmanager
def servers() -> Iterator[tuple[str, str]]:
    """URLs of a Postgres and a Valkey that are there for this block alone."""
    with tempfile.TemporaryDirectory(prefix="fairlead-servers-") as name:
        folder = Path(name)
        postgres = Postgres(
            folder / "postgres",
            password=secrets.token_hex(8),
            port=free_port(),
            settings=SETTINGS_OF_TESTS,
        )
        valkey = Valkey(folder / "valkey", password=secrets.token_hex(8), port=free_port())
        with (
            RunningProcess(postgres, folder / "p.log") as one,
            RunningProcess(valkey, folder / "v.log") as two,
        ):
            one.start()
            two.start()
            yield postgres.url(), valkey.url()


def main() -> None:
    """Start what it needs, and write the document."""
    with servers() as (database, redis):
        DOCUMENT.write_bytes(asyncio.run(made(database, redis)))


if __name__ == "__main__":
    main()
