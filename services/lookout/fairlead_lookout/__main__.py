"""`python -m fairlead_lookout`: settings, wiring, task group."""

import asyncio
import os

from fairlead_common.service import process, settings
from fairlead_common.web import server
from fairlead_lookout.service.service import Service
from fairlead_lookout.service.settings import Settings


async def main() -> None:
    """Serve until a signal. The first task to fail ends the process."""
    own = settings.load(Settings, os.environ)
    async with await Service.open(own) as service:
        app = server.build_app(
            "Fairlead lookout",
            service.routers(),
            service.checks(),
            own,
            identify=service.identify,
            error_page=service.error_page,
        )
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(each) for each in service.tasks()]
            await server.serve(app, own.http_host, own.http_port, own.connections)
            for task in background:
                task.cancel()


if __name__ == "__main__":
    process.run(main)
