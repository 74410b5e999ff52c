"""`python -m tests.integration.middleware.web_app_process`: the whole app on servers of its own.

Prints `URL TOKEN` when it answers, for tools like schemathesis. It ends on a signal.
"""

import asyncio

from fairlead_common.service import process
from tests.integration.middleware.web_app import serve_web_app
from tools import openapi


async def main() -> None:
    """Serve until a signal."""
    with openapi.servers() as (database, redis):
        async with serve_web_app(database, redis) as app:
            print(app.client.base_url, app.token, flush=True)  # noqa: T201  # it is asked to
            await asyncio.Event().wait()


if __name__ == "__main__":
    process.run(main, "WARNING")
