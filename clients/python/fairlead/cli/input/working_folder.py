"""The folder that commands start in: the caller's current one where jobs run on this machine."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead.calls.job_location import Location
    from fairlead.cli.input.submission_files import Submission

DEFAULT_POOL: Final = "default"
FolderOption = Annotated[
    str,
    typer.Option(
        "--working-dir",
        help="Folder to start in; the current one where jobs run on this machine as this user.",
        metavar="PATH",
    ),
]
ScratchOption = Annotated[
    bool, typer.Option("--scratch", help="Start in a new, empty folder of the run instead.")
]


def choose_folder(location: "Location", named: str, scratch: bool) -> str | None:
    """The `workingDir` of jobs that name none; None: a folder of each run's own."""
    if named and scratch:
        command_base.fail("give either --working-dir or --scratch, not both")
    if scratch:
        return None
    if not location.is_here:
        if named and not os.path.isabs(named):
            command_base.fail(
                "jobs do not run on this machine as this user: give --working-dir as an absolute"
                " path of the machine where they run"
            )
        return named or None
    try:
        return os.path.normpath(Path.cwd() / named)
    except FileNotFoundError:
        command_base.fail(
            "the current folder does not exist any more; change to another folder, or give"
            " --scratch"
        )


def fill_folder(submission: "Submission", location: "Location", folder: str | None) -> "Submission":
    """The submission with `folder` where it names none, and relative paths made absolute here."""
    import msgspec

    defaults = dict(submission.defaults or {})
    if folder is not None and defaults.get("podSpec") is None:
        defaults["workingDir"] = defaults.get("workingDir") or folder
    if not location.is_here:
        jobs = submission.jobs
    else:
        jobs = [_make_absolute(job) for job in submission.jobs]
        defaults = _make_absolute(defaults)
    groups = [_fill_group(group, location, folder) for group in submission.groups]
    return msgspec.structs.replace(
        submission, jobs=jobs, groups=groups, defaults=(defaults or None) if jobs else None
    )


def _fill_group(
    group: "Mapping[str, object]", location: "Location", folder: str | None
) -> dict[str, object]:
    """The group with the folder in the templates of its roles; an invalid role stays as it is."""
    roles = group.get("roles")
    if not isinstance(roles, list):
        return dict(group)
    return {**group, "roles": [_fill_role(role, location, folder) for role in roles]}


def _fill_role(role: object, location: "Location", folder: str | None) -> object:
    template = role.get("template") if isinstance(role, dict) else None
    if not isinstance(role, dict) or not isinstance(template, dict):
        return role
    filled = dict(template)
    if folder is not None and filled.get("podSpec") is None:
        filled["workingDir"] = filled.get("workingDir") or folder
    return {**role, "template": _make_absolute(filled) if location.is_here else filled}


def list_templates(submission: "Submission") -> list[dict[str, object]]:
    """The templates of all roles, as far as the groups have their form."""
    found = []
    for group in submission.groups:
        roles = group.get("roles")
        for role in roles if isinstance(roles, list) else ():
            template = role.get("template") if isinstance(role, dict) else None
            if isinstance(template, dict):
                found.append(template)
    return found


def list_pools(submissions: "Iterable[Submission]") -> set[str]:
    """The pools that the jobs of these submissions name, `default` among them for those that name
    none.
    """
    found = set()
    for submission in submissions:
        defaults = submission.defaults or {}
        for job in submission.jobs:
            found.add(str(job.get("pool") or defaults.get("pool") or DEFAULT_POOL))
        for template in list_templates(submission):
            found.add(str(template.get("pool") or DEFAULT_POOL))
    return found


def _make_absolute(job: Mapping[str, object]) -> dict[str, object]:
    folder = job.get("workingDir")
    if not isinstance(folder, str) or not folder or os.path.isabs(folder):
        return dict(job)
    return {**job, "workingDir": os.path.normpath(Path.cwd() / folder)}


def warn_of_image(location: "Location") -> None:
    """Say that no cluster uses the image that was given."""
    if not location.has_images:
        command_base.print_message(
            "fairlead: the image is not used: the clusters of the job's pool run commands without"
            " containers, with the programs of their machine"
        )
