"""`fairlead cancel`, `preempt`, `reprioritize`, `release`, `resubmit`: actions on jobs."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from fairlead.cli.input import job_selection
from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base, recent_job_set

if TYPE_CHECKING:
    from fairlead import ActionResult, Client, Filter, StartedAction

UNCONFIRMED_MAX: Final = 100
"""Actions on more jobs than this ask for confirmation."""

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the number of affected jobs, and change nothing.")
]
Request = Callable[["Client", "list[str] | Filter", bool], "ActionResult"]
"""(client, jobs, whether it is a dry run) -> the response of the server."""


class Action(NamedTuple):
    """What a command does with jobs: `cancel`, and what is requested: a `cancellation`."""

    verb: str
    noun: str
    request: Request


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "cancel",
        short_help="Cancel jobs.",
        epilog=command_base.format_examples(
            "fairlead cancel trial-7 trial-8 --jobset sweep",
            "fairlead cancel --queue default --jobset nightly --state QUEUED",
            "fairlead cancel --queue default --label team=vision --dry-run",
        ),
    )(cancel)
    app.command(
        "preempt",
        short_help="Stop the runs of jobs.",
        epilog=command_base.format_examples(
            "fairlead preempt trial-7",
            "fairlead preempt --queue default --node n1 --reason 'n1 is replaced today'",
        ),
    )(preempt)
    app.command(
        "reprioritize",
        short_help="Change the priority of jobs within their queue.",
        epilog=command_base.format_examples(
            "fairlead reprioritize --priority 10 trial-7 --jobset sweep",
            "fairlead reprioritize --priority -5 --queue default --jobset nightly",
        ),
    )(reprioritize)
    app.command(
        "release",
        short_help="Release jobs that are held.",
        epilog=command_base.format_examples("fairlead release trial-7 --jobset sweep"),
    )(release)

    app.command(
        "resubmit",
        short_help="Submit jobs again, as new ones.",
        epilog=command_base.format_examples(
            "fairlead resubmit --failed --jobset nightly",
            "fairlead resubmit --failed --jobset nightly --memory-factor 2",
            "fairlead resubmit --queue default --jobset nightly --state FAILED --into nightly-2",
            "fairlead resubmit 0h01ja5y7d1s8xk2v4m6n8p0qr --into again",
        ),
    )(resubmit)


@job_selection.with_filter_options
def cancel(
    context: typer.Context,
    chosen: "Filter",
    ids: job_selection.Ids = None,
    reason: command_base.Reason = "",
    dry_run: DryRun = False,
    yes: command_base.Yes = False,
) -> None:
    """Cancel jobs: queued ones end at once, running ones are stopped first."""

    def request(client: "Client", jobs: "list[str] | Filter", dry: bool) -> "ActionResult":
        return client.cancel(jobs, reason=reason, dry_run=dry)

    action = Action("cancel", "cancellation", request)
    _request_action(context, ids, chosen, action, dry_run=dry_run, yes=yes)


@job_selection.with_filter_options
def preempt(
    context: typer.Context,
    chosen: "Filter",
    ids: job_selection.Ids = None,
    reason: command_base.Reason = "",
    dry_run: DryRun = False,
    yes: command_base.Yes = False,
) -> None:
    """Stop the runs of jobs. The jobs are queued again or end, as their `onPreemption` says."""

    def request(client: "Client", jobs: "list[str] | Filter", dry: bool) -> "ActionResult":
        return client.preempt(jobs, reason=reason, dry_run=dry)

    action = Action("preempt", "preemption", request)
    _request_action(context, ids, chosen, action, dry_run=dry_run, yes=yes)


@job_selection.with_filter_options
def reprioritize(
    context: typer.Context,
    chosen: "Filter",
    priority: job_selection.NewPriority,
    ids: job_selection.Ids = None,
    reason: command_base.Reason = "",
    dry_run: DryRun = False,
    yes: command_base.Yes = False,
) -> None:
    """Change the priority of jobs within their queue."""

    def request(client: "Client", jobs: "list[str] | Filter", dry: bool) -> "ActionResult":
        return client.reprioritize(jobs, priority, reason=reason, dry_run=dry)

    action = Action("reprioritize", f"priority {priority}", request)
    _request_action(context, ids, chosen, action, dry_run=dry_run, yes=yes)


def release(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="JOB", help=job_selection.NAME_HELP)],
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Release jobs that were submitted with `hold: true`."""
    with command_base.connect(context) as client:
        done = client.release(job_selection.list_references(client, ids, queue, jobset))
    matched = len(ids) if done.matched is None else done.matched
    _report_request(ids, matched, verb="release", noun="release")


@job_selection.with_filter_options
def resubmit(
    context: typer.Context,
    chosen: "Filter",
    into: Annotated[str, typer.Option(help="The job set of the new jobs.", metavar="NAME")] = "",
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="The failed jobs of a job set, in the same job set, as `trial~2`."
        ),
    ] = False,
    ids: job_selection.Ids = None,
    into_queue: Annotated[
        str, typer.Option(help="The queue of the new jobs; default: unchanged.", metavar="NAME")
    ] = "",
    memory_factor: Annotated[
        float | None,
        typer.Option(
            min=1.0, max=16.0, help="Multiply the requested memory by this.", metavar="NUMBER"
        ),
    ] = None,
    yes: command_base.Yes = False,
) -> None:
    """Submit jobs again, as new jobs of a job set; the old jobs are not changed.

    With --failed it submits the jobs of a job set that failed, or that were cancelled because
    another job failed, unless they were submitted again before. The new jobs replace them in the
    job set. If the command is interrupted, the server still submits all of them.
    """
    with command_base.connect(context) as client:
        if memory_factor is not None and math.isnan(memory_factor):
            command_base.fail("--memory-factor is not a number")
        if failed:
            others = [*(ids or []), into, into_queue]
            started = _resubmit_failed(client, chosen, others, memory_factor, yes)
        else:
            if not into:
                command_base.fail("add --into JOBSET or --failed")
            jobs = job_selection.select_jobs(client, ids, chosen)
            if not isinstance(jobs, list):
                groups = client.count_jobs(["queue"], chosen)
                _confirm_resubmission(sum(group.jobs for group in groups), yes)
            started = client.resubmit(
                jobs, into, queue=into_queue or None, memory_factor=memory_factor
            )
        last = None
        try:
            for last in client.watch_action(started.action):
                command_base.print_progress(last.done, last.total)
        except KeyboardInterrupt:
            command_base.print_message("\nfairlead: the server continues to submit them again")
            raise
    assert last is not None, "an action reports its progress at least once"
    if last.total == 0 and failed:
        typer.echo(f"nothing to resubmit: no failed job in {last.queue}/{last.job_set}")
        return
    if last.total == 0:
        command_base.fail("these jobs do not exist; nothing was submitted")
    if last.position is not None:
        recent_job_set.save(client.server.url, last.queue, last.job_set, last.position)
    for refused in last.refused[: command_base.FIELD_ERRORS_LISTED_MAX]:
        command_base.print_message(f"{refused.id}: {refused.reason}")
    typer.echo(
        f"submitted {output_formats.format_count(last.made, 'job')} to {last.queue}/{last.job_set}"
    )
    if last.made < last.total:
        raise typer.Exit(command_base.EXIT_JOBS_FAILED)


def _resubmit_failed(
    client: "Client",
    chosen: "Filter",
    others: list[str],
    memory_factor: float | None,
    yes: bool,
) -> "StartedAction":
    """Resubmit the failed jobs of the named job set, or of the one used last."""
    from fairlead import Filter

    queue, job_set = job_selection.find_job_set(client, chosen.queue or "", chosen.job_set or "")
    if any(others) or chosen != Filter(queue=chosen.queue, job_set=chosen.job_set):
        command_base.fail(
            "--failed can only be combined with --queue, --jobset and --memory-factor"
        )
    _confirm_resubmission(client.job_set(queue, job_set).bad, yes)
    return client.resubmit_failed(queue, job_set, memory_factor=memory_factor)


def _confirm_resubmission(count: int, yes: bool) -> None:
    """Ask before many jobs are submitted again."""
    if count > UNCONFIRMED_MAX:
        what = output_formats.format_count(count, "job")
        command_base.confirm(f"Submit {what} again?", f"this would submit {what}", yes)


def _request_action(
    context: typer.Context,
    ids: list[str] | None,
    chosen: "Filter",
    action: Action,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Request the action, after a confirmation if it affects many jobs."""
    verb = action.verb
    with command_base.connect(context) as client:
        jobs = job_selection.select_jobs(client, ids, chosen)
        if dry_run:
            _print_dry_run(action.request(client, jobs, True), verb)
            return
        count = len(jobs) if isinstance(jobs, list) else action.request(client, jobs, True).matched
        if count is None or count > UNCONFIRMED_MAX:
            what = _format_jobs(count)
            command_base.confirm(f"{verb.capitalize()} {what}?", f"this would {verb} {what}", yes)
        done = action.request(client, jobs, False)
    matched = count if done.matched is None else done.matched
    _report_request(jobs, matched, verb=verb, noun=action.noun)


def _report_request(
    jobs: "list[str] | Filter", matched: int | None, *, verb: str, noun: str
) -> None:
    """Print what was requested, and for how many jobs."""
    if matched != 0:
        typer.echo(f"{noun} of {_format_jobs(matched)} requested")
    elif isinstance(jobs, list):
        why = "no job is in a state that permits it"
        if verb == "preempt":
            why = "the job does not run" if len(jobs) == 1 else "none of these jobs runs"
        command_base.print_message(f"fairlead: nothing to {verb}: {why}")
    else:
        command_base.print_message("fairlead: no such jobs exist")


def _format_jobs(count: int | None) -> str:
    """The number as text. None: the server could not count them in time."""
    return (
        "an unknown number of jobs" if count is None else output_formats.format_count(count, "job")
    )


def _print_dry_run(found: "ActionResult", verb: str) -> None:
    """Print the result of a dry run."""
    typer.echo(f"would {verb} {_format_jobs(found.matched)}; nothing was done")
    for job in found.sample:
        typer.echo(f"  {job.id}  {job.state}  {job.job_set}")
    more = (found.matched or 0) - len(found.sample)
    if found.sample and more > 0:
        typer.echo(f"  ... and {more:,} more")
