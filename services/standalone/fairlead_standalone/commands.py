"""What this package adds to the `fairlead` command: `up`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli import frame


class Backend(StrEnum):
    """What the executor runs jobs on: this machine, or machines that exist only in its memory."""

    PROCESS = "process"
    SIMULATED = "simulated"


Data = Annotated[
    Path | None,
    typer.Option(help="Folder for everything that is kept [default: ~/.local/share/fairlead]"),
]


def register(app: typer.Typer) -> None:
    """Add the commands. Called by `fairlead` through the entry point group `fairlead.commands`."""
    app.command(
        name="up",
        epilog=frame.examples(
            "fairlead up",
            "fairlead up --data ./data --port 8081",
            "fairlead up --backend simulated",
        ),
    )(up)


def up(
    data: Data = None,
    port: Annotated[
        int, typer.Option(help="Port of 127.0.0.1 to serve on.", min=1, max=65535)
    ] = 8080,
    kafka: Annotated[
        str | None, typer.Option(help="Use this Kafka as the log.", metavar="HOST:PORT")
    ] = None,
    postgres: Annotated[str | None, typer.Option(help="Use this Postgres.", metavar="URL")] = None,
    redis: Annotated[
        str | None, typer.Option(help="Use this Redis or Valkey.", metavar="URL")
    ] = None,
    backend: Annotated[Backend, typer.Option(help="Where jobs run.")] = Backend.PROCESS,
) -> None:
    """Start all of Fairlead on this machine; Ctrl-C ends it."""
    from fairlead_standalone import main  # late: `fairlead --help` needs none of it

    main.run_up(
        data=data, port=port, kafka=kafka, postgres=postgres, redis=redis, backend=backend.value
    )
