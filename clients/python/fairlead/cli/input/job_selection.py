"""What a command is about: jobs by id, name or filter, and one group or array."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import ArrayView, Client, Filter, GroupDetail

NAME_HELP: Final = "An id, a client id of the job set, or QUEUE/JOBSET/CLIENTID."
Ids = Annotated[list[str] | None, typer.Argument(metavar="JOB", help=NAME_HELP)]
OneJob = Annotated[str, typer.Argument(metavar="JOB", help=NAME_HELP)]
OnlyQueue = Annotated[str, typer.Option(help="Only of this queue.", metavar="NAME")]
OnlyJobSet = Annotated[str, typer.Option(help="Only of this job set.", metavar="NAME")]
OfQueue = Annotated[str, typer.Option("--queue", help="The queue of a client id.", metavar="NAME")]
OfJobSet = Annotated[
    str,
    typer.Option(
        "--jobset", help="The job set of a client id; else the last one used.", metavar="NAME"
    ),
]
NewPriority = Annotated[
    int,
    typer.Option(
        "--priority", help="The new priority; jobs with a higher one start first.", metavar="NUMBER"
    ),
]
_ID: Final = re.compile(r"[0-9abcdefghjkmnpqrstvwxyz]{28}")
Queue = Annotated[str, typer.Option(help="Jobs of this queue.", metavar="NAME")]
JobSet = Annotated[str, typer.Option(help="Only this job set.", metavar="NAME")]
States = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only in this state; may be repeated.", metavar="STATE"),
]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", help="Only of this priority class; may be repeated.", metavar="NAME"),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="Only with this label; may be repeated.", metavar="KEY=VALUE"),
]
Cluster = Annotated[str, typer.Option(help="Only on this cluster.", metavar="NAME")]
Node = Annotated[str, typer.Option(help="Only on this node.", metavar="NAME")]


def with_filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that filter jobs; it gets what they say as `chosen`."""
    return command_base.add_options(command, make_filter, "chosen")


def make_filter(
    queue: Queue = "",
    jobset: JobSet = "",
    state: States = None,
    class_: Classes = None,
    label: Labels = None,
    cluster: Cluster = "",
    node: Node = "",
) -> "Filter":
    """The filter of the options."""
    from fairlead import Filter
    from fairlead.models.job_models import STATES

    states = tuple(part.upper() for text in state or () for part in text.split(",") if part)
    for word in states:
        if word not in STATES:
            command_base.fail(f"{word!r} is not a state; the states are {', '.join(STATES)}")
    return Filter(
        queue=queue or None,
        job_set=jobset or None,
        states=states,
        classes=tuple(class_ or ()),
        labels=parse_pairs(label or []),
        cluster=cluster or None,
        node=node or None,
    )


def parse_pairs(texts: list[str]) -> dict[str, str]:
    """KEY=VALUE options as a mapping."""
    made = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            command_base.fail(f"{text!r} is not KEY=VALUE")
        made[key] = value
    return made


def is_empty(chosen: "Filter") -> bool:
    """Whether no option restricts anything."""
    from fairlead import Filter

    return chosen == Filter()


def select_jobs(
    client: "Client", texts: list[str] | None, chosen: "Filter"
) -> "list[str] | Filter":
    """The jobs of an action: names (then queue and job set belong to them), or a filter with a
    queue.
    """
    from fairlead import Filter

    if texts:
        if chosen != Filter(queue=chosen.queue, job_set=chosen.job_set):
            command_base.fail("choose jobs: either their names or options like --state, not both")
        return list_references(client, texts, chosen.queue or "", chosen.job_set or "")
    if chosen.queue is None:
        command_base.fail(
            "choose jobs: either ids, or --queue NAME (and --jobset, --state, --label)"
        )
    return chosen


def list_references(
    client: "Client", texts: list[str], queue: str = "", job_set: str = ""
) -> list[str]:
    """The references of these jobs for the server: an id, or `queue/jobSet/clientId`."""
    return [_make_reference(client, text, queue, job_set) for text in texts]


def _make_reference(client: "Client", text: str, queue: str, job_set: str) -> str:
    if _ID.fullmatch(text) or (text.count("/") > 1 and not (queue or job_set)):
        return text
    queue, job_set = find_job_set(client, queue, job_set)
    return f"{queue}/{job_set}/{text}"


class _Identified(Protocol):
    """A group or an array."""

    @property
    def id(self) -> str:
        """Its id."""


def find_id(
    client: "Client",
    noun: str,
    search: Callable[..., Iterator[_Identified]],
    text: str,
    queue: str,
    job_set: str,
) -> str:
    """The id of the group or array (`noun`) that a text names, as `NAME_HELP` says.

    `search`: returns those with a `queue`, a `job_set` and a `client_id`.
    """
    if _ID.fullmatch(text):
        return text
    if "/" not in text:
        queue, job_set = find_job_set(client, queue, job_set)
        text = f"{queue}/{job_set}/{text}"
    queue, job_set, name = _split_reference(text)
    found = next(search(queue=queue, job_set=job_set, client_id=name), None)
    if found is None:
        command_base.fail(f"there is no {noun} {name!r} in {queue}/{job_set}")
    return found.id


def find_group_or_array(client: "Client", reference: str) -> "GroupDetail | ArrayView | None":
    """What a reference that names no job names, if it exists."""
    from fairlead import NotFound

    group_id: str | None = reference
    if not _ID.fullmatch(reference):
        queue, job_set, name = _split_reference(reference)
        found = next(client.groups(queue=queue, job_set=job_set, client_id=name), None)
        group_id = None if found is None else found.id
    if group_id is not None:
        with contextlib.suppress(NotFound):
            return client.group(group_id)
    with contextlib.suppress(NotFound):
        return client.array(reference)
    return None


def _split_reference(text: str) -> tuple[str, str, str]:
    """The queue, the job set and the client id of a group or array, which contains no slash."""
    queue, _, rest = text.partition("/")
    job_set, _, name = rest.rpartition("/")
    return queue, job_set, name


def find_job_set(client: "Client", queue: str, job_set: str) -> tuple[str, str]:
    """The queue and the job set of a client id: as they are given, else those used last."""
    from fairlead.cli.support import recent_job_set

    known = recent_job_set.load(client.server.url)
    if not job_set:
        if known is None or queue not in ("", known.queue):
            command_base.fail("name the job set: --jobset NAME, or QUEUE/JOBSET/CLIENTID")
        return known.queue, known.job_set
    if not queue:
        queue = known.queue if known is not None and known.job_set == job_set else "default"
    return queue, job_set
