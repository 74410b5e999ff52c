"""`python -m tests.integration.doors.serve_whole`: the whole app on servers of its own, until told.

Prints `URL TOKEN` when it answers: for tools that ask from outside, as schemathesis does.
"""

import asyncio

from fairlead_common.service import process
from tests.integration.doors.whole import whole
from tools import openapi


async def main() -> None:
    """Serve until a signal."""
    with openapi.servers() as (database, redis):
        async with whole(database, redis) as app:
            print(app.client.base_url, app.token, flush=True)  # noqa: T201  # it is asked to
            await asyncio.Event().wait()


if __name__ == "__main__":
    process.run(main, "WARNING")
