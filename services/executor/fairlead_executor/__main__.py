"""`python -m fairlead_executor`: settings, wiring, task group."""

import asyncio
import os

from fairlead_common.service import process, settings
from fairlead_common.web import server
from fairlead_executor.service.service import Service
from fairlead_executor.service.settings import ExecutorSettings


async def main() -> None:
    """Run until a signal, then end the runs in order, if they end with the executor.

    The first task that fails ends the whole process. Its runs then continue, and the next executor
    finds them.
    """
    own = settings.load(ExecutorSettings, os.environ)
    async with Service.open(own) as service:
        try:
            await _work(service, own)
        except asyncio.CancelledError:
            await service.shut_down()
            raise


async def _work(service: Service, own: ExecutorSettings) -> None:
    app = server.build_app(
        "Fairlead executor",
        service.routers(),
        service.checks(),
        own,
        open_below=("/logs/",),  # by tokens that lookout signs
    )
    async with asyncio.TaskGroup() as tasks:
        for task in service.tasks():
            tasks.create_task(task)
        await server.serve(app, own.http_host, own.http_port, own.connections)


if __name__ == "__main__":
    process.run(main)
