"""What this package adds to the `fairlead` command: `up`, `repair` and `story`.

`fairlead doctor --deep` finds its check in `main.py`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.support import command_base


class Backend(StrEnum):
    """Where the executor runs jobs: on this machine, or on simulated nodes."""

    PROCESS = "process"
    SIMULATED = "simulated"


Data = Annotated[
    Path | None,
    typer.Option(help="Data folder: databases, log and runs [default: ~/.local/share/fairlead]"),
]


def register(app: typer.Typer) -> None:
    """Add the commands. Called by `fairlead` through the entry point group `fairlead.commands`."""
    app.command(
        name="up",
        epilog=command_base.format_examples(
            "fairlead up",
            "fairlead up --data ./data --port 8081",
            "fairlead up --backend simulated",
            "fairlead up --kubeconfig ~/.kube/config",
        ),
    )(up)
    app.command(
        name="repair",
        short_help="Make the log and all views consistent again.",
        epilog=command_base.format_examples(
            "fairlead repair --dry-run",
            "fairlead repair",
            "fairlead repair --data ./data --yes",
        ),
    )(repair)
    app.command(
        name="story",
        short_help="Show all events of a job in the log.",
        epilog=command_base.format_examples(
            "fairlead story 0h01ja5y7d1s8xk2v4m6n8p0qr",
            "fairlead story 0h01ja5y7d1s8xk2v4m6n8p0qr --data ./data",
        ),
    )(story)


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
    kubeconfig: Annotated[
        list[str] | None,
        typer.Option(
            help="Also run jobs on this Kubernetes cluster, in a pool of its name [default name:"
            " kubernetes]; may be repeated.",
            metavar="[NAME=]FILE",
        ),
    ] = None,
    shared_unconfined: Annotated[
        bool,
        typer.Option(
            "--shared-unconfined",
            help="Permit tokens and jobs of other users although jobs are not confined.",
        ),
    ] = False,
) -> None:
    """Start all of Fairlead on this machine; Ctrl-C ends it."""
    from fairlead_standalone.service import main  # late: `fairlead --help` needs none of it

    main.run_up(
        data=data,
        port=port,
        kafka=kafka,
        postgres=postgres,
        redis=redis,
        backend=backend.value,
        kubeconfigs=kubeconfig or (),
        shared_unconfined=shared_unconfined,
    )


def repair(
    data: Data = None,
    kafka: Annotated[
        str | None, typer.Option(help="The Kafka of a stopped `fairlead up`.", metavar="HOST:PORT")
    ] = None,
    postgres: Annotated[
        str | None, typer.Option(help="The Postgres of a stopped `fairlead up`.", metavar="URL")
    ] = None,
    redis: Annotated[
        str | None, typer.Option(help="The Redis of a stopped `fairlead up`.", metavar="URL")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print what is wrong and what would be done, and change nothing."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Repair without asking.")] = False,
    accept_new_log: Annotated[
        bool,
        typer.Option("--accept-new-log", help="The log was lost: continue in the new one."),
    ] = False,
) -> None:
    """Make the log and all views of it agree again after one of them was lost.

    Finds views that the log cannot continue, configuration that is older on one side, and jobs that
    differ between the scheduler and lookout. Jobs are corrected by ordinary events in the log; jobs
    whose real end is unknown are closed as failed and listed.

    Works on the data folder of `fairlead up`, or, where FAIRLEAD_DATABASE_URL is set, on the
    database and the log of the services' settings. No scheduler may lead meanwhile; a dry run can
    be done at any time. A dry run ends with 1 if something is to be repaired.
    """
    from fairlead_standalone.service import main  # late: `fairlead --help` needs none of it

    main.run_repair(
        data=data,
        kafka=kafka,
        postgres=postgres,
        redis=redis,
        dry_run=dry_run,
        yes=yes,
        accept_new_log=accept_new_log,
    )


def story(
    job: Annotated[str, typer.Argument(help="The id of the job.", metavar="JOB")],
    data: Data = None,
    kafka: Annotated[
        str | None, typer.Option(help="The Kafka of a stopped `fairlead up`.", metavar="HOST:PORT")
    ] = None,
    postgres: Annotated[
        str | None, typer.Option(help="The Postgres of a stopped `fairlead up`.", metavar="URL")
    ] = None,
) -> None:
    """Show every event that the log has about a job, in order, with the job's state after it.

    For operators: it reads the log itself and no view of it, so it also explains a job that the
    scheduler and lookout show differently. An event that changed nothing is shown with the reason.
    Users run `fairlead why JOB`.

    Reads the log of the data folder of `fairlead up`, or, where FAIRLEAD_DATABASE_URL is set, of
    the services' settings. It changes nothing and can be used at any time.
    """
    from fairlead_standalone.service import main  # late: `fairlead --help` needs none of it

    main.run_story(job, data=data, kafka=kafka, postgres=postgres)
