"""The commands of this package."""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import typer

from fairlead import discovery
from fairlead.cli.support import command_base
from fairlead.cli.support.doctor_checks import Finding
from fairlead_common.domain.errors import WorldError
from fairlead_common.service import process
from fairlead_standalone.data import data_folder
from fairlead_standalone.service import kubernetes_clusters
from fairlead_standalone.service.up import Options, up


def run_up(
    *,
    data: Path | None,
    port: int,
    kafka: str | None,
    postgres: str | None,
    redis: str | None,
    backend: str,
    kubeconfigs: Sequence[str],
    shared_unconfined: bool,
) -> None:
    """Run until interrupted. If it cannot run, print why and exit with 2."""
    process.hide_memory()
    try:
        options = Options(
            data=_data(data),
            port=port,
            kafka=kafka,
            postgres=postgres,
            redis=redis,
            backend=backend,
            clusters=kubernetes_clusters.read_clusters(kubeconfigs, os.environ),
            shared_unconfined=shared_unconfined,
        )
        with contextlib.closing(data_folder.claim(options.data)) as folder:
            asyncio.run(up(options, folder, _say))
    except WorldError as error:
        command_base.fail(str(error))


def run_repair(
    *,
    data: Path | None,
    kafka: str | None,
    postgres: str | None,
    redis: str | None,
    dry_run: bool,
    yes: bool,
    accept_new_log: bool,
) -> None:
    """Repair a data folder, or what the services' settings name."""
    from fairlead_standalone.repair import (
        repair_command,  # late: it needs all services, `up` does not
    )

    options = Options(data=_data(data), kafka=kafka, postgres=postgres, redis=redis)
    repair_command.run(
        options,
        use_folder=data is not None,
        dry_run=dry_run,
        yes=yes,
        accept_new_log=accept_new_log,
    )


def run_story(job: str, *, data: Path | None, kafka: str | None, postgres: str | None) -> None:
    """Print the story of a job from the log of a data folder, or of the services' settings."""
    from fairlead_standalone.repair import (
        story_command,  # late: it needs all services, `up` does not
    )

    options = Options(data=_data(data), kafka=kafka, postgres=postgres)
    story_command.run(options, job, use_folder=data is not None)


def check_scheduler_state(data: Path | None) -> list[Finding]:
    """The part of `fairlead doctor --deep` that needs the log and the database."""
    from fairlead_standalone.repair import state_check  # late: it needs all services

    options = Options(data=_data(data))
    return state_check.run(options, use_folder=data is not None)


def _data(given: Path | None) -> Path:
    return (given or discovery.data_folder(os.environ)).absolute()


def _say(text: str) -> None:
    """Print a line on the terminal, unless it is closed."""
    with contextlib.suppress(OSError):
        typer.echo(text)
