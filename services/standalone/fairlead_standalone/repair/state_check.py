"""The check of `fairlead doctor --deep`: the invariants of the scheduler's state.

The state is that of a standby which starts now: the checkpoint, folded up to the end of the log. It
is made in memory from what is read; a scheduler can lead meanwhile.
"""

import asyncio
from typing import Final

from fairlead.cli.support import command_base
from fairlead.cli.support.doctor_checks import Finding
from fairlead_common import db
from fairlead_common.domain.errors import LogUrlInvalid, ViewConflict, WorldError
from fairlead_common.log.coverage import ViewUnusable
from fairlead_common.log.opening import open_log
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.topics import JOBS
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_common.service import json_logging, settings
from fairlead_scheduler.service.recovery import Recovery, SchemaDiffers, require_schema
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.checkpoint.checkpoint_rows import UnreadableRecords
from fairlead_scheduler.store.checkpoint import NewerFormat
from fairlead_standalone.repair import locations
from fairlead_standalone.service.up import Options

NAME: Final = "scheduler state"
CONNECT_S_MAX: Final = 30.0
ATTEMPTS_MAX: Final = 5
"""A leader that saves can remove what a state that is older than its checkpoint needs: the state is
then loaded again."""
_DEFECT: Final = (
    "this is a defect of Fairlead: save a dump of the database's schema fairlead_scheduler, and"
    " report it"
)
_ACCESS: Final = (
    "run it on the machine of `fairlead up`, or on one that reaches the log and the database, with"
    " FAIRLEAD_DATABASE_URL and FAIRLEAD_LOG_URL as the services have them"
)
_VERSION: Final = "use the `fairlead` of the version that the scheduler runs"


def run(options: Options, *, use_folder: bool) -> list[Finding]:
    """The violated invariants; without any, one finding that says so, or why it is not known."""
    json_logging.set_up_logging("WARNING")
    try:
        return asyncio.run(_run(options, use_folder=use_folder))
    except ViewUnusable as error:  # its message names the repair
        return [_problem(str(error), "")]
    except (SchemaDiffers, NewerFormat) as error:
        return [_problem(f"not checked: {error}", _VERSION)]
    except (settings.SettingsError, LogUrlInvalid, WorldError) as error:
        return [_problem(f"not checked: {error}", _ACCESS)]


async def _run(options: Options, *, use_folder: bool) -> list[Finding]:
    async with locations.open_locations(
        options, use_folder=use_folder, say=command_base.print_message
    ) as found:
        pool = await db.open_pool(
            found.scheduler.database_url,
            size_max=2,
            connect_s_max=CONNECT_S_MAX,
            name="fairlead-doctor",
        )
        try:
            await require_schema(pool)
            log = ValidatingLog(
                await open_log(found.scheduler.log_url),
                Quarantine("scheduler", found.scheduler.skip_records),
            )
            try:
                return await _check(log, pool, found.scheduler)
            finally:
                await log.close()
        finally:
            await pool.close()


async def _check(log: ValidatingLog, pool: db.Pool, scheduler: SchedulerSettings) -> list[Finding]:
    """Raises `ViewUnusable`, and what reading the log or the database raises."""
    attempts = 0
    while True:
        attempts += 1
        try:
            state = await Recovery.load(log, pool, scheduler.rules)
        except UnreadableRecords as error:
            return [_problem(f"the checkpoint cannot be read: {error}", _DEFECT)]
        if state.gap is not None:
            raise ViewUnusable(state.gap)
        if violations := state.violations():  # nothing can be folded into such a state
            return [_problem(f"in the checkpoint: {each}", _DEFECT) for each in violations]
        try:
            await state.fold(await log.end_positions(JOBS))
            break
        except ViewConflict:
            if attempts == ATTEMPTS_MAX:
                raise
    if violations := state.violations():
        return [_problem(each, _DEFECT) for each in violations]
    return [Finding(NAME, f"all invariants hold ({len(state.live_jobs()):,} live jobs)")]


def _problem(text: str, hint: str) -> Finding:
    return Finding(NAME, text, hint, command_base.EXIT_JOBS_FAILED)
