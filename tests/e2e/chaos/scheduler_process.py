"""Schedulers as processes of their own, which tests kill and stop."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import KERNELS
from tests.conftest import ROOT

SCHEDULER = "fairlead_scheduler"


@asynccontextmanager
async def start_scheduler(
    module: str,
    database: str,
    valkey: str,
    kernels: Mapping[str, str] = KERNELS,
    *,
    stderr: int = DEVNULL,
) -> AsyncIterator[Process]:
    """A scheduler process of this module; killed at the end of the block, if it is still there.

    `kernels`: the settings that say where its compiled kernels are.
    """
    ours = {
        "FAIRLEAD_LOG_URL": database,
        "FAIRLEAD_DATABASE_URL": database,
        "FAIRLEAD_REDIS_URL": valkey,
        "FAIRLEAD_HTTP_PORT": str(free_port()),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        cwd=ROOT,
        env={**os.environ, **kernels, **ours},
        stdout=PIPE,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
