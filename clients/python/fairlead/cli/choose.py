"""Which jobs a command is about: ids, or options that filter, the same for all commands."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli import frame

if TYPE_CHECKING:
    from fairlead import Filter

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Job ids.")]
Queue = Annotated[str, typer.Option(help="Jobs of this queue.", metavar="NAME")]
JobSet = Annotated[str, typer.Option(help="Only of this job set.", metavar="NAME")]
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


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that filter jobs; it gets what they say as `chosen`."""
    filters = inspect.signature(where).parameters
    own = inspect.signature(command)
    parameters = [each for each in own.parameters.values() if each.name != "chosen"]

    def with_options(**given: Any) -> None:  # whatever the options are
        chosen = where(**{name: given.pop(name) for name in filters})
        command(chosen=chosen, **given)

    merged = [*parameters, *filters.values()]
    with_options.__name__ = command.__name__
    with_options.__doc__ = command.__doc__
    with_options.__annotations__ = {each.name: each.annotation for each in merged}
    with_options.__dict__["__signature__"] = own.replace(
        parameters=[each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in merged]
    )
    return with_options


def where(
    queue: Queue = "",
    jobset: JobSet = "",
    state: States = None,
    class_: Classes = None,
    label: Labels = None,
    cluster: Cluster = "",
    node: Node = "",
) -> "Filter":
    """What the options say."""
    from fairlead import Filter
    from fairlead.models import STATES

    states = tuple(part.upper() for text in state or () for part in text.split(",") if part)
    for word in states:
        if word not in STATES:
            frame.fail(f"{word!r} is no state; there are {', '.join(STATES)}")
    return Filter(
        queue=queue or None,
        job_set=jobset or None,
        states=states,
        classes=tuple(class_ or ()),
        labels=pairs(label or []),
        cluster=cluster or None,
        node=node or None,
    )


def pairs(texts: list[str]) -> dict[str, str]:
    """KEY=VALUE options as a mapping."""
    made = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            frame.fail(f"{text!r} is not KEY=VALUE")
        made[key] = value
    return made


def is_empty(chosen: "Filter") -> bool:
    """Whether no option restricts anything."""
    from fairlead import Filter

    return chosen == Filter()


def ids_or_filter(ids: list[str] | None, chosen: "Filter") -> "list[str] | Filter":
    """What an action is about: either ids or a filter with a queue, nothing else."""
    if ids and not is_empty(chosen):
        frame.fail("say which jobs: either ids or options like --queue, not both")
    if ids:
        return ids
    if chosen.queue is None:
        frame.fail("say which jobs: either ids, or --queue NAME (and --jobset, --state, --label)")
    return chosen
