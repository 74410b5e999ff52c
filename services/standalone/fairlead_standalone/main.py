"""The commands of this package, with everything that they need."""

import asyncio
import contextlib
import os
from pathlib import Path

import typer

from fairlead import discovery
from fairlead.cli import frame
from fairlead_common.errors import WorldError
from fairlead_standalone import folder as folders
from fairlead_standalone.up import Options, up


def run_up(
    *,
    data: Path | None,
    port: int,
    kafka: str | None,
    postgres: str | None,
    redis: str | None,
    backend: str,
) -> None:
    """Run until interrupted; a refusal is a sentence and exit code 2."""
    options = Options(
        data=_data(data), port=port, kafka=kafka, postgres=postgres, redis=redis, backend=backend
    )
    try:
        with contextlib.closing(folders.claim(options.data, _say)) as folder:
            asyncio.run(up(options, folder, _say))
    except WorldError as error:
        frame.fail(str(error))


def show_token(data: Path | None) -> None:
    """Print the token in the data folder."""
    file = _data(data) / discovery.TOKEN_FILE
    try:
        typer.echo(file.read_text().strip())
    except FileNotFoundError:
        frame.fail(f"There is no {file}: `fairlead up` makes it on its first start.")
    except OSError as error:
        frame.fail(f"{file} cannot be read: {error.strerror}.")


def show_link(data: Path | None) -> None:
    """Print an address that signs a browser in, once."""
    path = _data(data)
    try:
        holder = folders.holder(path)
    except OSError as error:
        frame.fail(f"{path} cannot be read: {error.strerror}. Is it the folder of `fairlead up`?")
    if holder is None:
        frame.fail(f"Nothing runs on {path}. Start it with `fairlead up`, then ask again.")
    typer.echo(asyncio.run(_link(holder)))


async def _link(holder: folders.Holder) -> str:
    from fairlead_common import db  # late: `up` itself needs no database client
    from fairlead_standalone import first

    pool = await db.open_pool(holder.database_url, size_max=1, connect_s_max=5)
    try:
        return await first.link(pool, holder.address)
    finally:
        await pool.close()


def _data(given: Path | None) -> Path:
    return (given or discovery.data_folder(os.environ)).absolute()


def _say(text: str) -> None:
    """A line for the person at the terminal, who may have closed it: then nobody reads it."""
    with contextlib.suppress(OSError):
        typer.echo(text)
