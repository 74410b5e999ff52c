"""`python -m fairlead_executor`: settings, wiring, task group."""

import asyncio
import os
import sys

from fairlead_common.domain.errors import WorldError
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
    try:
        async with Service.open(own) as service:
            try:
                await _work(service, own)
            except asyncio.CancelledError:
                await service.shut_down()
                raise
    except* WorldError as errors:
        # Its message says what is wrong and what to do; a traceback would say no more.
        sys.exit(f"executor: {_first(errors)}")


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


def _first(errors: BaseExceptionGroup[WorldError]) -> BaseException:
    """The first error of a group, however deep it is."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


if __name__ == "__main__":
    process.run(main)
