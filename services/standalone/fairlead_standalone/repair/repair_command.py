"""The command `fairlead repair`."""

import asyncio

import typer

from fairlead.cli.support import command_base
from fairlead_common.domain.errors import LogUrlInvalid, WorldError
from fairlead_common.service import json_logging, settings
from fairlead_standalone.repair import locations
from fairlead_standalone.repair.repair_steps import Findings, Repair, list_closed_jobs
from fairlead_standalone.service.up import Options

OTHER_LOG = (
    "A view belongs to another log. If FAIRLEAD_LOG_URL is wrong, correct it instead. If the log"
    " was lost and created again, add --accept-new-log: the views then continue in the new log."
)


def run(
    options: Options, *, use_folder: bool, dry_run: bool, yes: bool, accept_new_log: bool
) -> None:
    """Examine, confirm, repair. Exit code 0, 1 if a dry run found something, else 2."""
    json_logging.set_up_logging("WARNING")
    try:
        asyncio.run(_run(options, use_folder, dry_run, yes, accept_new_log))
    except (settings.SettingsError, LogUrlInvalid, WorldError) as error:
        command_base.fail(str(error))


async def _run(
    options: Options, use_folder: bool, dry_run: bool, yes: bool, accept_new_log: bool
) -> None:
    async with (
        locations.open_locations(options, use_folder=use_folder) as found,
        Repair.open(found.scheduler, found.lookout) as repair,
    ):
        findings = await repair.examine()
        for line in findings.lines():
            typer.echo(line)
        if not findings:
            typer.echo("Nothing to repair: the log and all views are consistent.")
            return
        if dry_run:
            raise typer.Exit(command_base.EXIT_JOBS_FAILED)
        if findings.other_log and not accept_new_log:
            command_base.fail(OTHER_LOG)
        if not yes:
            typer.confirm("Repair this now?", abort=True)
        done = await repair.run(typer.echo)
        _show_done(done)


def _show_done(done: Findings) -> None:
    typer.echo(
        f"Repaired: {len(done.differences):,} jobs, {len(done.groups):,} groups;"
        f" submitted again: {len(done.only_in_log):,}."
    )
    for each in list_closed_jobs(done):
        typer.echo(
            f"closed as failed: {each.job_id} ({each.queue}/{each.job_set}): its result is"
            " unknown; submit it again if it is still needed"
        )
