"""`fairlead group`, and the lists and details of groups: distributed jobs of several roles."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.input import job_selection
from fairlead.cli.output import job_story, output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import Client, GroupDetail, GroupView
    from fairlead.models.group_models import GroupActionResult, RoleCounts, RoleScaling

_NUMBERS: Final = re.compile(r"([^=]+)=(?:(\d{1,9})?\.\.)?(\d{1,9})?")
OneGroup = Annotated[str, typer.Argument(metavar="GROUP", help=job_selection.NAME_HELP)]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="Scale, change, watch, restart or cancel groups.", no_args_is_help=True
    )
    group.command(
        "scale",
        short_help="Change the number of members of roles.",
        epilog=command_base.format_examples(
            "fairlead group scale bert-1 trainer=8",
            "fairlead group scale bert-1 trainer=2..8 ps=1..1",
        ),
    )(scale)
    group.command(
        "change",
        short_help="Change the priority, the growth or the templates of a group.",
        epilog=command_base.format_examples(
            "fairlead group change bert-1 --priority 10 --freeze-seconds 60",
            "fairlead group change bert-1 --template trainer=trainer.yaml",
        ),
    )(change)
    group.command(
        "watch",
        short_help="Print the events of a group until it has ended.",
        epilog=command_base.format_examples(
            "fairlead group watch bert-1", "fairlead group watch bert-1 --json"
        ),
    )(watch)
    group.command(
        "restart",
        short_help="Stop all members of a group and start them again.",
        epilog=command_base.format_examples("fairlead group restart bert-1 --reason 'new data'"),
    )(restart)
    group.command(
        "cancel",
        short_help="Cancel all members of a group.",
        epilog=command_base.format_examples("fairlead group cancel bert-1"),
    )(cancel)
    app.add_typer(group, name="group")


def list_all(
    context: typer.Context,
    queue: job_selection.OnlyQueue = "",
    jobset: job_selection.OnlyJobSet = "",
    state: Annotated[
        str,
        typer.Option(
            help="Only in these states, as QUEUED,STARTING,RUNNING,SUCCEEDED,FAILED,CANCELLED.",
            metavar="STATES",
        ),
    ] = "",
    limit: output_formats.LimitOption = 100,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List groups, newest first. RUNNING: how many members of each role run, and of how many."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    columns: output_formats.Columns[GroupView] = {
        "ID": lambda group: group.id,
        "QUEUE": lambda group: group.queue,
        "JOB SET": lambda group: group.job_set,
        "CLIENT ID": lambda group: group.client_id,
        "STATE": lambda group: group.state,
        "RUNNING": lambda group: _count_running(group),
        "AGE": lambda group: output_formats.format_age(group.submitted, now),
        "REASON": lambda group: group.reason,
    }
    with command_base.connect(context) as client:
        found = client.groups(
            queue=queue or None, job_set=jobset or None, state=state.upper() or None
        )
        limited = output_formats.take_first(found, limit)
    if any(_list_hops(group) for group in limited):
        columns = {**columns, "HOPS": _list_hops}
    spare = ("HOPS", "QUEUE", "JOB SET", "REASON", "AGE")
    output_formats.print_list(
        limited, output_format, columns, lambda group: group.id, "No such groups.", spare
    )


def describe(
    context: typer.Context,
    group: OneGroup,
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show all details of a group: its state, why it waits, its roles and members."""
    with command_base.connect(context) as client:
        detail = client.group(_find_id(client, group, queue, jobset))
    output_formats.print_detail(detail, detail.id, output_format, lambda: _print_group(detail))


def describe_history(detail: "GroupDetail") -> list[str]:
    """The state and why, the excluded nodes, and the members of each role by state."""
    why = detail.why
    reason = job_story.make_sentence(detail.reason or "") if why is None else why.sentence
    sentences = [f"{detail.state}: {reason}" if reason else detail.state]
    if why is not None:
        sentences += job_story.list_excluded_nodes(why)
    return sentences + [_describe_role(role) for role in detail.roles]


def scale(
    context: typer.Context,
    group: OneGroup,
    numbers: Annotated[
        list[str],
        typer.Argument(metavar="ROLE=[MIN..]MAX", help="New numbers of members of a role."),
    ],
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Change the number of members of roles.

    More members are submitted like those that there are; of fewer, those with the highest indexes
    are stopped. `trainer=8` changes the maximum, `trainer=2..8` both, `trainer=2..` the minimum.
    """
    roles = dict(_parse_numbers(text) for text in numbers)
    with command_base.connect(context) as client:
        done = client.scale_group(_find_id(client, group, queue, jobset), roles)
    _report_change(done, "scaled")


def change(
    context: typer.Context,
    group: OneGroup,
    priority: Annotated[
        int | None, typer.Option(help="The priority of all members.", metavar="NUMBER")
    ] = None,
    freeze_seconds: Annotated[
        int | None,
        typer.Option(min=0, help="The time between two changes of surplus.", metavar="SECONDS"),
    ] = None,
    step_max: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The most surplus members of a role that start at once; 0: no limit.",
            metavar="NUMBER",
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(help="A file with the new template of a role.", metavar="ROLE=FILE"),
    ] = None,
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Change the priority of all members, how a group grows, or templates of roles.

    A different template re-creates the group: all members stop, and new ones are submitted.
    """
    templates = dict(_read_template(text) for text in template or ())
    if priority is None and freeze_seconds is None and step_max is None and not templates:
        command_base.fail(
            "nothing to change; give --priority, --freeze-seconds, --step-max or --template"
        )
    with command_base.connect(context) as client:
        done = client.change_group(
            _find_id(client, group, queue, jobset),
            templates=templates,
            priority=priority,
            freeze_seconds=freeze_seconds,
            step_max=step_max,
        )
    _report_change(done, "changed")


def _report_change(done: "GroupActionResult", what: str) -> None:
    if done.position is None:
        text = f"nothing to change: group {done.id} has these numbers and terms already"
        command_base.print_message(f"fairlead: {text}")
        return
    new = output_formats.format_count(done.submitted, "new member")
    typer.echo(f"group {done.id} is {what}: {new}")


def watch(
    context: typer.Context,
    group: OneGroup,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for every event instead.")
    ] = False,
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Print the events of a group until it has ended; exit code 1 if it has not succeeded."""
    last = ""
    with command_base.connect(context) as client:
        found = _find_id(client, group, queue, jobset)
        for event in client.group_events(found, until_finished=True):
            last = event.type
            if as_json:
                output_formats.print_json_line(event)
            else:
                why = f": {event.reason}" if event.reason else ""
                output_formats.print_line(f"{event.time}  {event.type}{why}")
    if last != "groupSucceeded":
        raise typer.Exit(command_base.EXIT_JOBS_FAILED)


def restart(
    context: typer.Context,
    group: OneGroup,
    reason: command_base.Reason = "",
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Stop all members of a group and start them again together. It uses up no restart."""
    with command_base.connect(context) as client:
        done = client.restart_group(_find_id(client, group, queue, jobset), reason=reason)
    typer.echo(f"restart of group {done.id} requested")


def cancel(
    context: typer.Context,
    group: OneGroup,
    reason: command_base.Reason = "",
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
) -> None:
    """Cancel a group: queued members end at once, running ones are stopped first."""
    with command_base.connect(context) as client:
        done = client.cancel_group(_find_id(client, group, queue, jobset), reason=reason)
    _report_cancellation(done)


def _report_cancellation(done: "GroupActionResult") -> None:
    if done.position is None:
        command_base.print_message(f"fairlead: nothing to cancel: group {done.id} has ended")
    else:
        typer.echo(f"cancellation of group {done.id} requested")


def _read_template(text: str) -> tuple[str, dict[str, object]]:
    """The role and the template in the file of `ROLE=FILE`."""
    from fairlead.cli.input import submission_files

    role, _, file = text.partition("=")
    if not role or not file:
        command_base.fail(f"{text!r} is not ROLE=FILE")
    try:
        documents = submission_files.load_documents(file)
    except submission_files.Unreadable as error:
        command_base.fail(str(error))
    if len(documents) != 1 or not isinstance(documents[0], dict):
        command_base.fail(f"{file} is not the template of a role: one object with fields of a job")
    return role, documents[0]


def _parse_numbers(text: str) -> tuple[str, tuple[int | None, int | None]]:
    """The role and its new (min, max)."""
    found = _NUMBERS.fullmatch(text)
    if found is None or (found[2] is None and found[3] is None):
        command_base.fail(f"{text!r} is not ROLE=MAX or ROLE=MIN..MAX")
    return found[1], (_number(found[2]), _number(found[3]))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _find_id(client: "Client", text: str, queue: str, job_set: str) -> str:
    return job_selection.find_id(client, "group", client.groups, text, queue, job_set)


def _count_running(group: "GroupView") -> str:
    return ", ".join(f"{role.name} {role.running}/{role.max}" for role in group.roles)


def _list_hops(group: "GroupView") -> str | None:
    near = [f"{role.name} {role.hops}" for role in group.roles if role.hops is not None]
    return ", ".join(near) or None


def _describe_topology(detail: "GroupDetail") -> str | None:
    asked = detail.topology
    if asked is None:
        return None
    near = f" at most {asked.max_hops} hops" if asked.max_hops is not None else ""
    level = f" {asked.level}" if asked.level else ""
    return f"{asked.mode}{level}{near}, scope {asked.scope}"


def _print_group(detail: "GroupDetail") -> None:
    output_formats.print_fields(
        [
            ("Id", detail.id),
            ("Client id", detail.client_id),
            ("Queue", detail.queue),
            ("Job set", detail.job_set),
            ("State", detail.state),
            ("Why", None if detail.why is None else detail.why.sentence),
            ("Last change", detail.last_change),
            ("Reason", detail.reason),
            ("Submitted", detail.submitted),
            ("Started", detail.started),
            ("Ended", detail.ended),
            ("Completion", _describe_completion(detail)),
            ("On member failure", detail.on_member_failure),
            ("Startup", ", then ".join(detail.startup) or None),
            ("Restarts", f"{detail.restarts} of {detail.restart_limit}"),
            ("Topology", _describe_topology(detail)),
            ("Generation", detail.generation if detail.generation > 1 else None),
            ("Earlier members", detail.earlier_members or None),
            ("Labels", dict(detail.labels) or None),
        ]
    )
    for role in detail.roles:
        output_formats.print_line(_describe_role(role))
        if role.last_scaling is not None:
            output_formats.print_line(f"  Last scaling: {_describe_scaling(role.last_scaling)}")
        for member in detail.members:
            if member.role == role.name:
                where = f" on {member.node}" if member.node else ""
                why = f": {member.reason}" if member.reason else ""
                output_formats.print_line(
                    f"  {member.role}-{member.index}  {member.state}{where}{why}"
                )


def _describe_role(role: "RoleCounts") -> str:
    states = ("queued", "pending", "running", "succeeded", "failed", "stopped")
    counts = {state: getattr(role, state) for state in states}
    text = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    near = "" if role.hops is None else f", {role.hops} hops apart"
    return f"Role {role.name} ({role.min} to {role.max} members): {text or 'no members'}{near}"


def _describe_scaling(scaling: "RoleScaling") -> str:
    if scaling.change == "changed":
        what = f"minimum or maximum changed by {scaling.by}"
    else:
        members = output_formats.format_count(scaling.members, "surplus member")
        what = f"{members} {scaling.change}"
    why = f": {scaling.reason}" if scaling.reason else ""
    return f"{scaling.time}  {what}{why}"


def _describe_completion(detail: "GroupDetail") -> str:
    count = "all" if detail.completion_count is None else str(detail.completion_count)
    return f"{count} of {', '.join(detail.completion_roles)}"
