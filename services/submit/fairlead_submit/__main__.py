"""`python -m fairlead_submit`: serve until a signal."""

import asyncio
import os
import socket

from fairlead_common.service import process, settings
from fairlead_common.web import server
from fairlead_submit.http import api
from fairlead_submit.http.auth import sign_in_routes
from fairlead_submit.service.service import Service
from fairlead_submit.service.settings import SubmitSettings


async def main() -> None:
    """Run until a signal. The first task to fail takes the whole service down with it."""
    host = os.environ.get("HOSTNAME") or socket.gethostname()
    given = settings.load(SubmitSettings, os.environ).with_instance(host)
    async with Service.open(given) as service, asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(task) for task in service.tasks()]
        app = server.build_app(
            "Fairlead submit",
            api.routers(service),
            service.checks(),
            given,
            identify=service.identify,
            error_page=sign_in_routes.problem_page,
        )
        await server.serve(app, given.http_host, given.http_port, given.connections)
        for task in running:
            task.cancel()


if __name__ == "__main__":
    process.run(main, os.environ.get("FAIRLEAD_LOG_LEVEL", "INFO"))
