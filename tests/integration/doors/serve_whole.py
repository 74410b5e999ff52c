"""`python -m tests.integration.doors.serve_whole`: the whole app on servers of its own, until told.

Prints `URL TOKEN` when it answers: for tools that ask from outside, as schemathesis does.
"""

import asyncio
import secrets
import tempfile
from pathlib import Path

from fairlead_common import process
from fairlead_standalone.addresses import free_port
from fairlead_standalone.children import Running
from fairlead_standalone.postgres import SETTINGS_OF_TESTS, Postgres
from fairlead_standalone.valkey import Valkey
from tests.integration.doors.whole import whole


async def main() -> None:
    """Serve until a signal."""
    with tempfile.TemporaryDirectory(prefix="fairlead-whole-") as name:
        folder = Path(name)
        postgres = Postgres(
            folder / "postgres",
            password=secrets.token_hex(8),
            port=free_port(),
            settings=SETTINGS_OF_TESTS,
        )
        valkey = Valkey(folder / "valkey", password=secrets.token_hex(8), port=free_port())
        with Running(postgres, folder / "p.log") as one, Running(valkey, folder / "v.log") as two:
            one.start()
            two.start()
            async with whole(postgres.url(), valkey.url()) as app:
                print(app.client.base_url, app.token, flush=True)  # noqa: T201  # it is asked to
                await asyncio.Event().wait()


if __name__ == "__main__":
    process.run(main, "WARNING")
