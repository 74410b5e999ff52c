"""The command `fairlead story`: what the log has about a job, without any view of it."""

import asyncio
from typing import Final

import typer

from fairlead.cli.support import command_base
from fairlead_common.domain.errors import LogUrlInvalid, WorldError
from fairlead_common.domain.ids import JobId, is_job_id, partition_of_job
from fairlead_common.domain.story import Story, StoryEntry
from fairlead_common.log import EventLog
from fairlead_common.log.opening import open_log
from fairlead_common.log.topics import JOBS
from fairlead_common.service import json_logging, settings
from fairlead_standalone.repair import locations
from fairlead_standalone.repair.job_records import read_sequences
from fairlead_standalone.service.up import Options

NOTHING: Final = (
    "The log has no events of job {}: they are older than the log's retention, or in another log."
)


def run(options: Options, job_id: str, *, use_folder: bool) -> None:
    """Print the story of a job. Exit code 0, or 2 without one."""
    if not is_job_id(job_id):
        command_base.fail(
            f"{job_id[:60]!r} is not a job id. `fairlead get jobs -o name` lists the ids of jobs."
        )
    json_logging.set_up_logging("WARNING")
    try:
        story = asyncio.run(_read(options, JobId(job_id), use_folder=use_folder))
    except (settings.SettingsError, LogUrlInvalid, WorldError) as error:
        command_base.fail(str(error))
    if not story:
        command_base.fail(NOTHING.format(job_id))
    for entry in story:
        typer.echo(entry.line())


async def _read(options: Options, job_id: JobId, *, use_folder: bool) -> list[StoryEntry]:
    async with locations.open_locations(options, use_folder=use_folder) as found:
        log = await open_log(found.scheduler.log_url)
        try:
            return await read_story(log, job_id)
        finally:
            await log.close()


async def read_story(log: EventLog, job_id: JobId) -> list[StoryEntry]:
    """The story of a job, from all that the log has now of the job's partition."""
    story = Story(job_id)
    end = await log.end_positions(JOBS)
    async for entry, sequence in read_sequences(log, [partition_of_job(job_id)], end):
        story.fold(entry.time_ms, sequence)
    return story.entries
