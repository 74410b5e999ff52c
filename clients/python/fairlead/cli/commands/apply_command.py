"""`fairlead apply -f FILE`: make queues as a file says, and say what that changed."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.support import command_base, differences, output_formats, submission_files

if TYPE_CHECKING:
    from fairlead import Client, Queue

KIND: Final = "queue"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "apply",
        short_help="Make queues as a file says.",
        epilog=command_base.examples(
            "fairlead apply -f queues.yaml --dry-run",
            "fairlead apply -f queues.yaml",
            "fairlead get queues -o yaml | fairlead apply -f -",
        ),
    )(apply)


def apply(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Option("-f", "--file", help="YAML or JSON; - for standard input.", metavar="FILE"),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")
    ] = False,
) -> None:
    """Make queues as the documents of a file say: {kind: queue, name: ..., weight: ...}.

    What a document leaves out gets its default, but for a cordon: what an operator has cordoned
    stays so unless the document says `cordoned`. A queue that no document names stays as it is.
    With --dry-run the server checks every document and changes nothing.
    """
    from fairlead import Conflict, Invalid

    wanted = _queues(file)
    refused = 0
    with command_base.connect(context) as client:
        for queue, says_cordon in wanted:
            try:
                _apply(client, queue, says_cordon=says_cordon, dry_run=dry_run)
            except (Conflict, Invalid) as error:
                explanation = command_base.explain(error)
                assert explanation is not None, "every refusal has an explanation"
                command_base.say(
                    f"queue {queue.name} is refused; the others are not concerned\n{explanation[0]}"
                )
                refused += 1
    if refused:
        raise typer.Exit(command_base.EXIT_REFUSED)


def _apply(client: "Client", wanted: "Queue", *, says_cordon: bool, dry_run: bool) -> None:
    import msgspec

    from fairlead import NotFound, Queue

    try:
        old = client.queue(wanted.name)
    except NotFound:
        client.create_queue(wanted, dry_run=dry_run)
        typer.echo(f"queue {wanted.name} {'would be created' if dry_run else 'created'}")
        _lines(differences.of(Queue(name=wanted.name), wanted))
        return
    new = msgspec.structs.replace(wanted, version=old.version)
    if not says_cordon:
        new = msgspec.structs.replace(new, cordoned=old.cordoned, reason=old.reason)
    changed = differences.of(old, new)
    if not changed:
        typer.echo(f"queue {wanted.name} unchanged")
        return
    client.replace_queue(new, dry_run=dry_run)
    typer.echo(f"queue {wanted.name} {'would change' if dry_run else 'changed'}")
    _lines(changed)


def _lines(changed: list[str]) -> None:
    for line in changed:
        output_formats.print_line(f"  {line}")


def _queues(file: str) -> "list[tuple[Queue, bool]]":
    """The queues of a file, and whether each says if it is cordoned; a list in a document is as
    many documents. Names every fault.
    """
    found: list[tuple[Queue, bool]] = []
    faults: list[str] = []
    for index, document in enumerate(_flat(submission_files.load(file)), 1):
        queue = _queue(document)
        if isinstance(queue, list):
            faults += [f"  document {index}: {fault}" for fault in queue]
        else:
            assert isinstance(document, dict)
            found.append((queue, "cordoned" in document))
    names = [queue.name for queue, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    faults += [f"  queue {name} is there more than once" for name in twice]
    if faults:
        command_base.fail(
            "\n".join(
                [f"{submission_files.called(file)} is not understood; nothing was changed", *faults]
            )
        )
    return found


def _flat(found: list[object]) -> list[object]:
    return [each for one in found for each in (one if isinstance(one, list) else [one])]


def _queue(document: object) -> "Queue | list[str]":
    """The queue that a document describes, or all that is wrong with it."""
    import msgspec

    from fairlead import Queue
    from fairlead.models.job_models import QUEUE_BY_SERVER

    if not isinstance(document, dict):
        return ["is no mapping like {kind: queue, name: ...}"]
    kind = str(document.get("kind", KIND)).lower()
    if kind != KIND:
        return [f"its kind is {kind!r}; there is {KIND}"]
    ignored = ("kind", *QUEUE_BY_SERVER)
    fields = {name: value for name, value in document.items() if name not in ignored}
    known = [field.encode_name for field in msgspec.structs.fields(Queue)]
    faults = [f"{name}: there is no such field" for name in fields if name not in known]
    try:
        queue = msgspec.convert(fields, Queue)
    except msgspec.ValidationError as error:
        return [*faults, str(error)]
    return faults or queue
