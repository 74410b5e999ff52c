"""`python -m fairlead_executor`: settings, wiring, task group."""

import asyncio
import os
import sys

from fairlead_common import process, serving, settings
from fairlead_executor.executor import Superseded
from fairlead_executor.service import Service
from fairlead_executor.settings import ExecutorSettings


async def main() -> None:
    """Run until a signal, then end the runs in order, if they end with the executor.

    The first task to fail takes the whole process down with it; then runs go on, for the next
    executor to find.
    """
    own = settings.load(ExecutorSettings, os.environ)
    async with Service.open(own) as service:
        try:
            await _work(service, own)
        except asyncio.CancelledError:
            await service.shut_down()
            raise


async def _work(service: Service, own: ExecutorSettings) -> None:
    app = serving.build_app("Fairlead executor", service.routers(), service.checks(), own)
    try:
        async with asyncio.TaskGroup() as tasks:
            for task in service.tasks():
                tasks.create_task(task)
            await serving.serve(app, own.http_host, own.http_port)
    except* Superseded as errors:
        sys.exit(f"executor: {errors.exceptions[0]}")


if __name__ == "__main__":
    process.run(main)
