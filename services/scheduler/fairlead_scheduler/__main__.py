"""`python -m fairlead_scheduler`: settings, wiring, one task group."""

import asyncio
import gc
import os

from fairlead_common.service import process, settings
from fairlead_scheduler.kernels import compilation
from fairlead_scheduler.service.settings import SchedulerSettings


async def main() -> None:
    """Run until a signal. The first task to fail takes the whole service down with it."""
    gc.disable()  # a start makes objects that stay: no collection until the first cycle has ended
    compilation.choose_kernels(os.environ)
    from fairlead_scheduler.service.service import Service

    values = settings.load(SchedulerSettings, os.environ)
    async with Service.open(values) as service, asyncio.TaskGroup() as tasks:
        tasks.create_task(service.run(), name="scheduler")
        await service.settled()
        await asyncio.to_thread(_import_serving)
        gc.enable()
        from fairlead_common.web.server import build_app, serve

        app = build_app("Fairlead scheduler", [], service.checks(), values)
        await serve(app, values.http_host, values.http_port, values.connections)


def _import_serving() -> None:
    """Takes half a second, for which the first lease does not wait."""
    import fairlead_common.web.server  # noqa: F401


if __name__ == "__main__":
    process.run(main)
