"""`fairlead array`, and the lists and details of arrays: many tasks submitted as one job."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.input import job_selection
from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import ArrayView, Client
    from fairlead.models.array_models import ArrayTask

_OPTION: Final = re.compile(
    r"(?P<indexes>\d{1,9}(?:-\d{1,9}(?::\d{1,9})?)?(?:,\d{1,9}(?:-\d{1,9}(?::\d{1,9})?)?)*)"
    r"(?:%(?P<max>\d{1,9}))?"
)
OneArray = Annotated[str, typer.Argument(metavar="ARRAY", help=job_selection.NAME_HELP)]
Indexes = Annotated[
    str,
    typer.Option(help="Only tasks with these indexes, as 0-9,20-29:2.", metavar="SET"),
]
ArrayOption = Annotated[
    str,
    typer.Option(
        help="Make the job of the file an array with these indexes, as 0-999 or 0-999:10%50 (at"
        " most 50 at a time).",
        metavar="SET[%MAX]",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    array = typer.Typer(
        help="Change arrays: cancel their tasks, or submit them again.", no_args_is_help=True
    )
    array.command(
        "cancel",
        short_help="Cancel tasks of an array.",
        epilog=command_base.format_examples(
            "fairlead array cancel scan-7", "fairlead array cancel scan-7 --indexes 100-199"
        ),
    )(cancel)
    array.command(
        "reprioritize",
        short_help="Change the priority of an array.",
        epilog=command_base.format_examples("fairlead array reprioritize scan-7 --priority 10"),
    )(reprioritize)
    array.command(
        "resubmit",
        short_help="Submit tasks of an array again, as a new array.",
        epilog=command_base.format_examples("fairlead array resubmit scan-7 --indexes 3,17-19"),
    )(resubmit)
    app.add_typer(array, name="array")


def list_all(
    context: typer.Context,
    queue: job_selection.OnlyQueue = "",
    jobset: job_selection.OnlyJobSet = "",
    active: Annotated[
        bool, typer.Option("--active", help="Only those with tasks that have not ended.")
    ] = False,
    limit: output_formats.LimitOption = 100,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List arrays with their tasks by state, newest first."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    columns: output_formats.Columns[ArrayView] = {
        "ID": lambda array: array.id,
        "QUEUE": lambda array: array.queue,
        "JOB SET": lambda array: array.job_set,
        "CLIENT ID": lambda array: array.client_id,
        "TASKS": lambda array: array.tasks,
        "STATES": lambda array: _describe_counts(array.states),
        "AGE": lambda array: output_formats.format_age(array.submitted, now),
    }
    with command_base.connect(context) as client:
        found = client.arrays(queue=queue or None, job_set=jobset or None, active=active)
        limited = output_formats.take_first(found, limit)
    spare = ("QUEUE", "JOB SET", "AGE")
    output_formats.print_list(
        limited, output_format, columns, lambda array: array.id, "No such arrays.", spare
    )


def list_tasks(
    context: typer.Context,
    array: OneArray,
    state: Annotated[
        str,
        typer.Option(help="Only tasks in this state: QUEUED, RUNNING, FAILED, ...", metavar="NAME"),
    ] = "",
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
    limit: output_formats.LimitOption = 100,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List the tasks of an array by index, also those that are not released yet."""
    columns: output_formats.Columns[ArrayTask] = {
        "INDEX": lambda task: task.index,
        "ID": lambda task: task.id,
        "STATE": lambda task: f"{task.state} ({task.stopping})" if task.stopping else task.state,
        "NODE": lambda task: task.node,
        "EXIT": lambda task: task.exit_code,
        "REASON": _explain_task,
    }
    with command_base.connect(context) as client:
        found = client.array_tasks(
            _find_id(client, array, queue, jobset), state=state.upper() or None
        )
        limited = output_formats.take_first(found, limit)
    output_formats.print_list(
        limited,
        output_format,
        columns,
        lambda task: task.id,
        "No such tasks.",
        ("ID", "EXIT", "REASON"),
    )


def describe(
    context: typer.Context,
    array: OneArray,
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show all details of an array: its tasks by state, and why tasks wait."""
    with command_base.connect(context) as client:
        detail = client.array(_find_id(client, array, queue, jobset))
    output_formats.print_detail(detail, detail.id, output_format, lambda: _print_array(detail))


def describe_history(detail: "ArrayView") -> list[str]:
    """The tasks by state, and why some of them are not released."""
    states = _describe_counts(detail.states)
    if detail.why is not None:
        return [f"{states}: {detail.why.sentence}"]
    return [f"{states}: {detail.reason}." if detail.reason else states]


def cancel(
    context: typer.Context,
    array: OneArray,
    indexes: Indexes = "",
    reason: command_base.Reason = "",
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Cancel tasks of an array: waiting ones end at once, running ones are stopped first."""
    with command_base.connect(context) as client:
        found = _find_id(client, array, queue, jobset)
        done = client.cancel_array(found, indexes=indexes or None, reason=reason)
    if done.position is None:
        ended = "these tasks have" if indexes else "it has"
        command_base.print_message(f"fairlead: nothing to cancel of array {done.id}: {ended} ended")
    else:
        tasks = output_formats.format_count(done.tasks, "task")
        typer.echo(f"cancellation of {tasks} of array {done.id} requested")


def reprioritize(
    context: typer.Context,
    array: OneArray,
    priority: job_selection.NewPriority,
    reason: command_base.Reason = "",
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Change the priority of all tasks of an array that have not ended."""
    with command_base.connect(context) as client:
        found = _find_id(client, array, queue, jobset)
        done = client.reprioritize([found], priority, reason=reason)
    if done.matched == 0:
        command_base.print_message(f"fairlead: nothing to change: array {found} has ended")
    else:
        typer.echo(f"priority {priority} of array {found} requested")


def resubmit(
    context: typer.Context,
    array: OneArray,
    indexes: Indexes = "",
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Submit tasks of an array again, as a new array with their indexes."""
    with command_base.connect(context) as client:
        found = _find_id(client, array, queue, jobset)
        done = client.resubmit_array(found, indexes=indexes or None)
    tasks = output_formats.format_count(done.tasks, "task")
    typer.echo(f"submitted {tasks} as array {done.id}")


def parse_option(text: str) -> dict[str, object]:
    """The field `array` of a job for a value of `--array`."""
    found = _OPTION.fullmatch(text)
    if found is None:
        command_base.fail(f"{text!r} is not a set of indexes such as 0-999, 0-999:10 or 0-999%50")
    ends = [int(number) for number in re.findall(r"\d+", re.sub(r":\d+", "", found["indexes"]))]
    array: dict[str, object] = {"count": max(ends) + 1, "indexes": found["indexes"]}
    return array if found["max"] is None else array | {"maxRunning": int(found["max"])}


def _find_id(client: "Client", text: str, queue: str, job_set: str) -> str:
    return job_selection.find_id(client, "array", client.arrays, text, queue, job_set)


def _explain_task(task: "ArrayTask") -> str | None:
    if task.state == "QUEUED" and not task.released:
        return "not released"
    return task.reason or task.message or task.waiting_for


def _describe_counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{tasks:,} {state.lower()}" for state, tasks in states.items())


def _print_array(detail: "ArrayView") -> None:
    most = "any number" if detail.max_running is None else f"{detail.max_running}"
    output_formats.print_fields(
        [
            ("Id", detail.id),
            ("Client id", detail.client_id),
            ("Queue", detail.queue),
            ("Job set", detail.job_set),
            ("Tasks", f"{detail.tasks:,} (indexes {detail.indexes} of {detail.count:,})"),
            ("Running at most", most),
            ("Priority", f"{detail.priority} in class {detail.priority_class}"),
            ("After", detail.after),
            ("After tasks of", detail.after_corresponding),
            ("States", _describe_counts(detail.states)),
            ("Not released", f"{detail.waiting:,}" if detail.waiting else None),
            ("Why", None if detail.why is None else detail.why.sentence),
            ("Submitted", f"{detail.submitted} by {detail.submitted_by}"),
            ("Ended", detail.ended),
            ("Cancelled by", detail.cancelled_by),
            ("Reason", detail.reason),
            ("Labels", dict(detail.labels) or None),
        ]
    )
