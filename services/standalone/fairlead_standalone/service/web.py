"""`python -m fairlead_standalone.service.web`: the routes of submit and lookout on one port."""

import asyncio
import logging
import os
from pathlib import Path

from fastapi import FastAPI

from fairlead import discovery
from fairlead_common import db
from fairlead_common.domain.errors import StorageFull
from fairlead_common.service import process, settings
from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from fairlead_lookout.service.service import Service as Lookout
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_standalone.data.data_folder import LINK_FILE, write_private
from fairlead_standalone.service import first_start
from fairlead_submit.http import api
from fairlead_submit.service.service import Service as Submit
from fairlead_submit.service.settings import SubmitSettings

_logger = logging.getLogger("fairlead.web")


async def main() -> None:
    """Serve until a signal. The first task that fails ends the whole process."""
    own = settings.load(SubmitSettings, os.environ)
    lookout_settings = settings.load(LookoutSettings, os.environ)
    async with (
        Submit.open(own) as submit,
        await Lookout.open(lookout_settings, submit.log) as lookout,
    ):
        address = f"http://{own.http_host}:{own.http_port}"
        await _prepare(own, address)
        app = build(submit, lookout, own)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(task) for task in (*submit.tasks(), *lookout.tasks())]
            await server.serve(
                app,
                own.http_host,
                own.http_port,
                own.connections,
                listening=lambda: _announce(Path(own.data), address),
            )
            for task in running:
                task.cancel()


def build(submit: Submit, lookout: Lookout, own: Settings) -> FastAPI:
    """One app with the routes of both services."""
    return server.build_app(
        "Fairlead",
        [*api.routers(submit), *lookout.routers(submit.checks())],
        {**submit.checks(), **lookout.checks()},
        own,
        identify=submit.identify,
        error_page=lookout.error_page,
    )


async def _prepare(own: SubmitSettings, address: str) -> None:
    """Create the first token, the first queue and the sign-in link of this start."""
    pool = await db.open_pool(own.database_url, size_max=1)
    try:
        await first_start.prepare_first_start(pool, Path(own.data))
        await _write_link(pool, Path(own.data), address)
    finally:
        await pool.close()


async def _write_link(pool: db.Pool, data: Path, address: str) -> None:
    """Write the sign-in link of this start; if the disk is full, log that instead."""
    try:
        with db.translate_errors():
            link = await first_start.make_sign_in_link(pool, data, address)
        write_private(data / LINK_FILE, f"{link}\n".encode())
    except (StorageFull, OSError) as error:
        _logger.warning(
            "this start has no sign-in link, because it could not be written: %s", error
        )


def _announce(data: Path, address: str) -> None:
    """Write the address of the server for the commands; an earlier file is replaced."""
    file, content = data / discovery.ADDRESS_FILE, f"{address}\n".encode()
    try:
        if not file.exists() or file.read_bytes() != content:
            write_private(file, content)
    except OSError as error:
        _logger.warning(
            "%s cannot be written, so commands on this machine do not find this server: %s",
            file,
            error,
        )


if __name__ == "__main__":
    process.run(main, os.environ.get("FAIRLEAD_LOG_LEVEL", "INFO"))
