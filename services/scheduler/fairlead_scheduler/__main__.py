"""`python -m fairlead_scheduler`: settings, wiring, one task group."""

import asyncio
import os
from pathlib import Path

from fairlead_common import process, settings


def _keep_compiled_kernels(data: str) -> None:
    """Where compiled kernels are cached; numba reads this when it is first imported."""
    folder = Path(data) if data else Path.home() / ".cache" / "fairlead"
    os.environ.setdefault("NUMBA_CACHE_DIR", str(folder / "numba"))


async def main() -> None:
    """Run until a signal. The first task to fail takes the whole service down with it."""
    _keep_compiled_kernels(os.environ.get("FAIRLEAD_DATA", ""))
    from fairlead_common.serving import build_app, serve
    from fairlead_scheduler.service import Service
    from fairlead_scheduler.settings import SchedulerSettings

    values = settings.load(SchedulerSettings, os.environ)
    async with Service.open(values) as service, asyncio.TaskGroup() as tasks:
        tasks.create_task(service.run(), name="scheduler")
        app = build_app("Fairlead scheduler", [], service.checks(), values)
        await serve(app, values.http_host, values.http_port)


if __name__ == "__main__":
    process.run(main)
