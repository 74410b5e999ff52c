"""`fairlead submit FILE`: jobs and groups from YAML or JSON, as the API takes them, or manifests.

`fairlead convert FILE` only shows what manifests become.
"""

import shlex
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.commands.jobs import array_commands, watch_command
from fairlead.cli.input import working_folder
from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base, recent_job_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from fairlead import Client, SubmitResult, SubmittedJob, ValidationResult
    from fairlead.cli.input.submission_files import Submission
    from fairlead.models.group_models import SubmittedGroup


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "submit",
        short_help="Submit the jobs and groups of a file.",
        epilog=command_base.format_examples(
            "fairlead submit jobs.yaml --watch",
            "fairlead submit jobs.yaml --dry-run",
            "make-jobs | fairlead submit - --queue default --jobset nightly -o name",
        ),
    )(submit)
    app.command(
        "convert",
        short_help="Show what manifests of Kubernetes become.",
        epilog=command_base.format_examples(
            "fairlead convert job.yaml > jobs.yaml",
            "fairlead convert job.yaml --report",
        ),
    )(convert)


def submit(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML or JSON file; - for standard input.")
    ],
    queue: Annotated[str, typer.Option(help="Queue, instead of the file's.", metavar="NAME")] = "",
    jobset: Annotated[
        str, typer.Option(help="Job set, instead of the file's.", metavar="NAME")
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when all jobs of the job set have ended.")
    ] = False,
    show: Annotated[bool, typer.Option("--watch", help="As --wait, and show live counts.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate the jobs on the server, and create nothing.")
    ] = False,
    array: array_commands.ArrayOption = "",
    working_dir: working_folder.FolderOption = "",
    scratch: working_folder.ScratchOption = False,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Submit the jobs and groups of a file.

    The file holds {queue, jobSet, defaults, jobs: [...], groups: [...]} with jobs or groups or
    both, several such documents, or manifests of Kubernetes, which `fairlead convert` shows as
    jobs. With --wait or --watch the exit code is 1 when one of the submitted jobs did not succeed.
    Where jobs run on this machine as the same user, those without a `workingDir` start in the
    current folder.
    """
    from fairlead import Conflict, Invalid
    from fairlead.cli.input import submission_files

    documents = submission_files.load_documents(file)
    if submission_files.are_manifests(file, documents):
        with command_base.connect(context) as client:
            sent = _submit_manifests(client, documents, queue, jobset, dry_run, output_format)
            _wait_for_success(client, sent, wait, show)
        return
    found = submission_files.fill_job_sets(
        file, submission_files.decode_submissions(file, documents), queue, jobset
    )
    if array:
        found = [_make_array(found, array)]
    hint = "every error is listed with its place; `--dry-run` checks without creating"
    other = (
        "a client id identifies one job: the file, or the folder that you submit from, has changed"
    )
    with (
        command_base.connect(context) as client,
        command_base.add_hint(hint, Invalid),
        command_base.add_hint(other, Conflict),
    ):
        location = client.location(*working_folder.list_pools(found))
        folder = working_folder.choose_folder(location, working_dir, scratch)
        found = [working_folder.fill_folder(item, location, folder) for item in found]
        if any(_has_image(item) for item in found):
            working_folder.warn_of_image(location)
        if dry_run:
            for number, item in enumerate(found, 1):
                with _name_document(number, len(found)):
                    _check(client, item)
            return
        sent = _submit_all(client, found, output_format)
        _wait_for_success(client, sent, wait, show)


def _make_array(found: "list[Submission]", text: str) -> "Submission":
    """The submission with its only job as an array."""
    import msgspec

    if len(found) != 1 or len(found[0].jobs) != 1 or found[0].groups:
        command_base.fail("--array makes an array of one job; the file has more, or groups")
    (job,) = found[0].jobs
    made = {**job, "array": array_commands.parse_option(text)}
    return msgspec.structs.replace(found[0], jobs=[made])


def convert(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML or JSON file; - for standard input.")
    ],
    queue: Annotated[
        str, typer.Option(help="Queue, instead of the manifests'.", metavar="NAME")
    ] = "",
    jobset: Annotated[
        str, typer.Option(help="Job set, instead of the manifests'.", metavar="NAME")
    ] = "",
    report: Annotated[
        bool, typer.Option("--report", help="List every field and what becomes of it.")
    ] = False,
    output_format: Annotated[
        output_formats.Format,
        typer.Option("-o", "--output", help="How to print: table, json or yaml."),
    ] = output_formats.Format.YAML,
) -> None:
    """Show what manifests of Kubernetes become, as a file for `fairlead submit`.

    Fields that are ignored are listed on stderr with the reason. Nothing is created.
    """
    from fairlead.cli.input import manifest_reports, submission_files

    documents = submission_files.load_documents(file)
    if not submission_files.are_manifests(file, documents):
        command_base.fail(f"{submission_files.describe_file(file)} has no manifest of Kubernetes")
    with command_base.connect(context) as client, _name_documents(documents):
        made = client.convert_manifests(
            manifest_reports.select_objects(documents), queue=queue or None, job_set=jobset or None
        )
    if report:
        manifest_reports.print_report(made.fields, output_format)
        return
    manifest_reports.print_ignored(made.fields)
    lists = {"jobs": made.jobs, "groups": made.groups}
    submission: dict[str, object] = {"queue": made.queue, "jobSet": made.job_set}
    submission |= {name: found for name, found in lists.items() if found}
    if output_format in (output_formats.Format.JSON, output_formats.Format.YAML):
        output_formats.print_object(submission, output_format)
    else:
        command_base.fail("jobs are printed as yaml or json; add --report for a table of fields")


def _submit_manifests(
    client: "Client",
    documents: list[object],
    queue: str,
    jobset: str,
    dry_run: bool,
    output_format: output_formats.Format,
) -> "list[tuple[Submission, SubmitResult]]":
    """Submit manifests as jobs or groups of one job set, and list the fields without effect."""
    from fairlead import SubmitResult, ValidationResult
    from fairlead.cli.input import manifest_reports, submission_files

    with _name_documents(documents):
        done = client.submit_manifests(
            manifest_reports.select_objects(documents),
            queue=queue or None,
            job_set=jobset or None,
            dry_run=dry_run,
        )
    manifest_reports.print_ignored(done.fields)
    jobs: list[dict[str, object]] = [{"clientId": job.client_id} for job in done.jobs]
    item = submission_files.Submission(queue=done.queue, job_set=done.job_set, jobs=jobs)
    if done.position is None:
        if done.groups:
            _report_group_check(item, done.groups)
        else:
            _report_check(item, ValidationResult(jobs=done.jobs))
        return []
    recent_job_set.save(client.server.url, done.queue, done.job_set, done.position)
    accepted = (*done.jobs, *_list_members(done.groups))
    sent = [(item, SubmitResult(position=done.position, jobs=accepted))]
    _report(sent, output_format)
    return sent


def _has_image(item: "Submission") -> bool:
    jobs = (item.defaults or {}, *item.jobs, *working_folder.list_templates(item))
    return any(job.get("image") for job in jobs)


def _check(client: "Client", item: "Submission") -> None:
    """Have the server check a document, and print what it found."""
    if item.jobs:
        done = client.check(item.queue, item.job_set, item.jobs, defaults=item.defaults)
        _report_check(item, done)
    if item.groups:
        checked = client.check_groups(item.queue, item.job_set, item.groups)
        _report_group_check(item, checked.groups)


def _report_group_check(item: "Submission", groups: "Sequence[SubmittedGroup]") -> None:
    count = output_formats.format_count(len(groups), "group")
    stuck = sum(group.feasible is False for group in groups)
    who = "it" if len(groups) == 1 else f"{stuck} of them"
    but = f", but {who} cannot run as nodes and limits are now" if stuck else ""
    typer.echo(f"{count} for {item.full_name} can be submitted{but}; nothing was created")
    for group in groups:
        name, why = group.client_id or group.id, group.why or ""
        infeasible = [role for role in group.roles if role.feasible is False]
        for role in infeasible:
            command_base.print_message(f"role {role.name} of {name} is infeasible now: {role.why}")
        if group.feasible is False and not any(why.endswith(role.why or "") for role in infeasible):
            command_base.print_message(f"group {name} is infeasible now: {why}")
        elif group.feasible is None and why:
            command_base.print_message(f"it is not known whether group {name} can run: {why}")


def _list_members(groups: "Iterable[SubmittedGroup]") -> "list[SubmittedJob]":
    """The members of groups as submitted jobs."""
    from fairlead import SubmittedJob

    return [
        SubmittedJob(id=member.id, client_id=member.client_id, duplicate=group.duplicate)
        for group in groups
        for member in group.members
    ]


def _submit_all(
    client: "Client", found: "list[Submission]", output_format: output_formats.Format
) -> "list[tuple[Submission, SubmitResult]]":
    """Submit the documents; nothing is submitted if the server finds an error in one of them
    first."""
    if len(found) > 1 or any(item.jobs and item.groups for item in found):
        for number, item in enumerate(found, 1):
            with _name_document(number, len(found)):
                if item.jobs:
                    client.check(item.queue, item.job_set, item.jobs, defaults=item.defaults)
                if item.groups:
                    client.check_groups(item.queue, item.job_set, item.groups)
    sent: list[tuple[Submission, SubmitResult]] = []
    try:
        for number, item in enumerate(found, 1):
            with _name_document(number, len(found)):
                sent.append((item, _submit(client, item)))
    finally:
        if sent:
            _report(sent, output_format)
    return sent


def _name_document(number: int, count: int) -> "AbstractContextManager[None]":
    """Name the refused document, if there are several."""
    from fairlead.errors import RequestRefused

    if count == 1:
        return nullcontext()
    return command_base.add_hint(f"document {number} of the file was refused", RequestRefused)


def _name_documents(documents: "Sequence[object]") -> "AbstractContextManager[None]":
    """Explain where the manifests of a request come from, if there are several."""
    from fairlead.errors import Invalid

    if len(documents) == 1:
        return nullcontext()
    hint = "`/manifests/0` is the first document of the file, `/manifests/1` the second"
    return command_base.add_hint(hint, Invalid)


def _submit(client: "Client", item: "Submission") -> "SubmitResult":
    """Submit it; a submission of several requests shows its progress. Members of groups are
    jobs of the result."""
    from fairlead import SubmitResult
    from fairlead.calls import submission_batches

    whole = len(item.jobs)

    def on_progress(taken: int) -> None:
        if whole > submission_batches.JOBS_MAX:
            command_base.print_progress(taken, whole)

    done = SubmitResult(position="", jobs=())
    if item.jobs:
        done = client.submit(
            item.queue, item.job_set, item.jobs, defaults=item.defaults, on_progress=on_progress
        )
    if item.groups:
        groups = client.submit_groups(item.queue, item.job_set, item.groups)
        accepted = (*done.jobs, *_list_members(groups.groups))
        done = SubmitResult(position=groups.position or done.position, jobs=accepted)
    recent_job_set.save(client.server.url, item.queue, item.job_set, done.position)
    return done


def _report(
    sent: "list[tuple[Submission, SubmitResult]]", output_format: output_formats.Format
) -> None:
    if output_format is output_formats.Format.TABLE:
        for item, done in sent:
            typer.echo(summarize(item.full_name, done))
        return
    jobs: list[SubmittedJob] = [job for _, done in sent for job in done.jobs]
    output_formats.print_list(jobs, output_format, {}, lambda job: job.id, "")


def summarize(job_set: str, done: "SubmitResult") -> str:
    """How many jobs were created in a job set, and how many existed before."""
    known = sum(job.duplicate for job in done.jobs)
    arrays = [job.tasks for job in done.jobs if job.tasks is not None and not job.duplicate]
    created = len(done.jobs) - known - len(arrays)
    if created == 0 and not arrays and known:
        if known == 1:
            return f"No new job: it exists already in {job_set}."
        return f"No new jobs: all {known:,} exist already in {job_set}."
    exists = f" ({known:,} more {'exists' if known == 1 else 'exist'} already)" if known else ""
    return f"submitted {_count(created, arrays)} to {job_set}{exists}"


def _count(jobs: int, arrays: "Sequence[int]") -> str:
    """How many jobs, and arrays of how many tasks."""
    parts = [output_formats.format_count(jobs, "job")] if jobs or not arrays else []
    if arrays:
        tasks = output_formats.format_count(sum(arrays), "task")
        parts.append(f"{output_formats.format_count(len(arrays), 'array')} of {tasks}")
    return " and ".join(parts)


def _report_check(item: "Submission", done: "ValidationResult") -> None:
    arrays = [job.tasks for job in done.jobs if job.tasks is not None]
    jobs = _count(len(done.jobs) - len(arrays), arrays)
    typer.echo(f"{jobs} for {item.full_name} can be submitted; nothing was created")
    stuck = [(at, job) for at, job in enumerate(done.jobs) if job.feasible is False]
    for at, job in stuck[: command_base.FIELD_ERRORS_LISTED_MAX]:
        name = item.jobs[at].get("clientId") or f"/jobs/{at}"
        command_base.print_message(
            f"{name} is infeasible now: {job.why or 'no node is large enough'}"
        )
    if len(stuck) > command_base.FIELD_ERRORS_LISTED_MAX:
        command_base.print_message(
            f"... and {len(stuck) - command_base.FIELD_ERRORS_LISTED_MAX} more"
        )


def _wait_for_success(
    client: "Client", sent: "list[tuple[Submission, SubmitResult]]", wait: bool, show: bool
) -> None:
    """With `--wait` or `--watch`, wait, and end with an error if a job did not succeed."""
    if (wait or show) and not all(_wait(client, sent, show)):
        raise typer.Exit(command_base.EXIT_JOBS_FAILED)


def _wait(
    client: "Client", sent: "list[tuple[Submission, SubmitResult]]", show: bool
) -> list[bool]:
    """Which submissions succeeded as a whole."""
    outcomes = []
    for item, done in sent:
        try:
            outcomes.append(_has_succeeded(client, item, done, show))
        except KeyboardInterrupt:
            watch, cancel = suggest_commands(item.queue, item.job_set)
            command_base.print_message(
                f"\nfairlead: the jobs continue: `{watch}` shows them again, `{cancel}` ends them"
            )
            raise
    return outcomes


def suggest_commands(queue: str, job_set: str) -> tuple[str, str]:
    """The commands that watch and cancel a job set, quoted for a shell whatever its name is."""
    options_end = ("--",) if job_set.startswith("-") else ()
    watch = shlex.join(("fairlead", "watch", *options_end, queue, job_set))
    cancel = shlex.join(("fairlead", "cancel", "--queue", queue, f"--jobset={job_set}"))
    return watch, cancel


def _has_succeeded(client: "Client", item: "Submission", done: "SubmitResult", show: bool) -> bool:
    """Wait for the job set; whether all the jobs of this submission succeeded."""
    from fairlead import Filter

    if show:
        ended = watch_command.follow(client, item.queue, item.job_set, after=done.position)
    else:
        ended = client.wait(item.queue, item.job_set, after=done.position)
    if not ended.bad:
        return True
    ids = {job.id for job in done.jobs}
    states = tuple(state for state in ended.states if state in watch_command.BAD)
    found = client.iter_jobs(Filter(queue=item.queue, job_set=item.job_set, states=states))
    bad = [job for job in found if job.id in ids]
    all_succeeded = not bad
    arrays = [client.array(job.id) for job in done.jobs if job.tasks is not None]
    for array in arrays:
        tasks = array.states
        counts = {state: tasks[state] for state in watch_command.BAD if state in tasks}
        if counts:
            text = ", ".join(f"{count} {state}" for state, count in counts.items())
            command_base.print_message(f"array {array.client_id or array.id}: {text}")
            all_succeeded = False
    for job in bad[: command_base.FIELD_ERRORS_LISTED_MAX]:
        name = job.client_id or job.id
        command_base.print_message(f"{name}: {job.state}{': ' + job.reason if job.reason else ''}")
    if len(bad) > command_base.FIELD_ERRORS_LISTED_MAX:
        command_base.print_message(
            f"... and {len(bad) - command_base.FIELD_ERRORS_LISTED_MAX} more"
        )
    return all_succeeded
