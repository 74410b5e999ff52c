"""Finds the log and the database: from a data folder, or from the services' settings.

The settings are the ones of the services (`FAIRLEAD_DATABASE_URL`, `FAIRLEAD_LOG_URL`, ...). For
`fairlead up` a data folder is enough: its servers are used if they run, else they are started for
the duration of the command.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from typing import Final

import msgspec
import typer

from fairlead_common.service import settings
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_standalone.data import data_folder
from fairlead_standalone.data.data_folder import FolderRefused
from fairlead_standalone.processes.process_output import Say
from fairlead_standalone.processes.supervisor import Supervisor
from fairlead_standalone.service.up import Options, choose_servers

DATABASE: Final = "FAIRLEAD_DATABASE_URL"


class Locations(msgspec.Struct, frozen=True):
    """The settings with which a command works."""

    scheduler: SchedulerSettings
    lookout: LookoutSettings


def read_environment(environment: Mapping[str, str]) -> Locations:
    """The settings in the environment. Raises `SettingsError`."""
    return Locations(
        settings.load(SchedulerSettings, environment), settings.load(LookoutSettings, environment)
    )


@asynccontextmanager
async def open_locations(
    options: Options, *, use_folder: bool, say: Say = typer.echo
) -> AsyncIterator[Locations]:
    """The settings in the environment; with `use_folder`, or if the environment names no database,
    those of a data folder.

    `say` prints which servers of the folder are used. Raises `SettingsError`, or
    `FolderRefused` if the folder does not exist.
    """
    if not use_folder and DATABASE in os.environ:
        yield read_environment(os.environ)
        return
    async with _open_folder(options, os.environ, say) as found:
        yield found


@asynccontextmanager
async def _open_folder(
    options: Options, environment: Mapping[str, str], say: Say
) -> AsyncIterator[Locations]:
    if not (options.data / "format").exists():
        raise FolderRefused(
            f"{options.data} is not a data folder of `fairlead up`. Name one with --data, or set"
            f" {DATABASE} and FAIRLEAD_LOG_URL as the services have them."
        )
    holder = data_folder.read_holder(options.data)
    if holder is not None:
        say(f"using the servers of the running `fairlead up` (process {holder.pid})")
        yield _add_servers(environment, holder.database_url, holder.log_url, holder.redis_url)
        return
    with closing(data_folder.claim(options.data)) as folder:
        servers = choose_servers(options, folder, say)
        async with Supervisor(folder.logs, say) as children:
            await children.start(*servers.programs)
            yield _add_servers(
                environment, servers.database_url, servers.log_url, servers.redis_url
            )


def _add_servers(environment: Mapping[str, str], database: str, log: str, redis: str) -> Locations:
    urls = {DATABASE: database, "FAIRLEAD_LOG_URL": log, "FAIRLEAD_REDIS_URL": redis}
    return read_environment({**environment, **urls})
