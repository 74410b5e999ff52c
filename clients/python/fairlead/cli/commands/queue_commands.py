"""`fairlead queue create`, `get`, `list`, `update`, `delete`, `cordon`, `uncordon`, and `apply`.

`apply` creates or changes queues and webhooks as a file describes, and prints what it changed.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from fairlead.cli.support import (
    command_base,
    job_selection,
    output_formats,
    quantity_texts,
    webhook_options,
)

if TYPE_CHECKING:
    from fairlead import Client, Queue
    from fairlead.models.webhook_models import WebhookChange

QUEUE: Final = "queue"
WEBHOOKS: Final = ("webhook", "slack", "email", "airflow")
"""The kinds of documents; those of webhooks are the kinds of webhooks too."""
_SET_BY_SERVER: Final = frozenset(
    {"version", "credentials", "secrets", "disabled", "failingSince", "lastSuccess", "pending"}
    | {"changed", "by"}
)
"""Fields of a webhook that only the server sets; documents can have them, as `get -o yaml` does."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="A label; may be repeated.", metavar="KEY=VALUE"),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        help="The most that its jobs of a class can use: a fraction of the pool (0.5) or an amount"
        " (64Gi); may be repeated.",
        metavar="CLASS/RESOURCE=AMOUNT",
    ),
]


class Order(StrEnum):
    """The order of a queue's jobs and groups within a class value."""

    FIFO = "fifo"
    FAIR = "fair"


OrderOption = Annotated[
    Order | None,
    typer.Option(
        "--order",
        help="Order of its jobs and groups: fifo, by priority and submission; or fair, by weighted"
        " running time, least first.",
    ),
]


class AppliedDocument(NamedTuple):
    """A queue, and whether the document says if it is cordoned; or a webhook."""

    queue: "Queue | None" = None
    says_cordon: bool = False
    webhook: "WebhookChange | None" = None

    @property
    def name(self) -> str:
        """`queue a` or `webhook b`."""
        if self.queue is not None:
            return f"queue {self.queue.name}"
        assert self.webhook is not None
        return f"webhook {self.webhook.name}"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Create, change and show queues.", no_args_is_help=True)
    group.command(
        "create",
        epilog=command_base.format_examples(
            "fairlead queue create vision",
            "fairlead queue create vision --weight 2 --limit default/cpu=0.5 --label team=a",
        ),
    )(create)
    group.command("get", epilog=command_base.format_examples("fairlead queue get vision"))(get)
    group.command("list", epilog=command_base.format_examples("fairlead queue list -o name"))(
        list_all
    )
    group.command(
        "update",
        epilog=command_base.format_examples(
            "fairlead queue update vision --weight 3",
            "fairlead queue update vision --order fair",
            "fairlead queue update vision --limit high/memory=64Gi --remove-label team",
        ),
    )(update)
    group.command("delete", epilog=command_base.format_examples("fairlead queue delete vision"))(
        delete
    )
    group.command(
        "cordon",
        epilog=command_base.format_examples("fairlead queue cordon vision --reason 'wrong image'"),
    )(cordon)
    group.command(
        "uncordon", epilog=command_base.format_examples("fairlead queue uncordon vision")
    )(uncordon)
    app.add_typer(group, name="queue")
    app.command(
        "apply",
        short_help="Create or change the queues and webhooks of a file.",
        epilog=command_base.format_examples(
            "fairlead apply -f queues.yaml --dry-run",
            "fairlead apply -f queues.yaml",
            "fairlead get queues -o yaml | fairlead apply -f -",
        ),
    )(apply)


def create(
    context: typer.Context,
    name: Name,
    weight: Annotated[
        float,
        typer.Option(help="Its weight: twice the weight gets twice the share.", metavar="NUMBER"),
    ] = 1.0,
    label: Labels = None,
    limit: Limits = None,
    order: OrderOption = None,
) -> None:
    """Create a queue."""
    from fairlead import Conflict, Queue

    wanted = Queue(
        name=name,
        weight=weight,
        labels=job_selection.parse_pairs(label or []),
        limits=_limits(limit or []),
        order=(order or Order.FIFO).value,
    )
    hint = f"`fairlead queue update {name}` changes it; `fairlead queue get {name}` shows it"
    with command_base.connect(context) as client, command_base.add_hint(hint, Conflict):
        made = client.create_queue(wanted)
    typer.echo(f"queue {made.name} created (weight {made.weight:g})")


def get(
    context: typer.Context,
    name: Name,
    output_format: output_formats.FormatOption = output_formats.Format.YAML,
) -> None:
    """Show one queue."""
    with command_base.connect(context) as client:
        found = client.queue(name)
    if output_format in (output_formats.Format.TABLE, output_formats.Format.NAME):
        show([found], output_format)
    else:
        output_formats.print_object(found, output_format)


def list_all(
    context: typer.Context, output_format: output_formats.FormatOption = output_formats.Format.TABLE
) -> None:
    """Show all queues."""
    with command_base.connect(context) as client:
        show(list(client.queues()), output_format)


def update(
    context: typer.Context,
    name: Name,
    weight: Annotated[float | None, typer.Option(help="Its new weight.", metavar="NUMBER")] = None,
    label: Labels = None,
    remove_label: Annotated[
        list[str] | None,
        typer.Option(help="A label to remove; may be repeated.", metavar="KEY"),
    ] = None,
    limit: Limits = None,
    remove_limits: Annotated[
        bool, typer.Option("--remove-limits", help="Remove all its limits first.")
    ] = False,
    order: OrderOption = None,
) -> None:
    """Change the given fields of a queue and keep all others."""
    import msgspec

    from fairlead.cli.support import differences

    with command_base.connect(context) as client:
        old = client.queue(name)
        limits = {} if remove_limits else {key: dict(value) for key, value in old.limits.items()}
        for class_name, amounts in _limits(limit or []).items():
            limits.setdefault(class_name, {}).update(amounts)
        labels = {**old.labels, **job_selection.parse_pairs(label or [])}
        for key in remove_label or ():
            labels.pop(key, None)
        new = msgspec.structs.replace(
            old,
            weight=old.weight if weight is None else weight,
            limits=limits,
            labels=labels,
            order=old.order if order is None else order.value,
        )
        if new != old:
            client.replace_queue(new)
    _report(name, differences.list_differences(old, new))


def delete(context: typer.Context, name: Name) -> None:
    """Remove a queue that has no live jobs."""
    from fairlead import Conflict

    hint = f"`fairlead cancel --queue {name}` cancels its jobs"
    with command_base.connect(context) as client, command_base.add_hint(hint, Conflict):
        client.delete_queue(name)
    typer.echo(f"queue {name} deleted")


def cordon(
    context: typer.Context,
    name: Name,
    reason: command_base.Reason = "",
) -> None:
    """Start no new runs of a queue; current runs continue."""
    with command_base.connect(context) as client:
        pending = client.cordon_queue(name, reason=reason).pending
    if pending:
        typer.echo(
            f"queue {name} will be cordoned when the log is available; its jobs can be started"
            " until then"
        )
    else:
        typer.echo(f"queue {name} cordoned: none of its jobs will be started")


def uncordon(context: typer.Context, name: Name) -> None:
    """Let a queue start new runs again."""
    with command_base.connect(context) as client:
        client.uncordon_queue(name)
    typer.echo(f"queue {name} uncordoned")


def show(queues: "list[Queue]", output_format: output_formats.Format) -> None:
    """Print queues."""
    columns: output_formats.Columns[Queue] = {
        "NAME": lambda queue: queue.name,
        "WEIGHT": lambda queue: f"{queue.weight:g}",
        "ORDER": lambda queue: queue.order,
        "CORDONED": lambda queue: quantity_texts.format_cordon(queue.cordoned, queue.reason),
        "LIMITS": lambda queue: quantity_texts.format_limits(queue.limits),
        "LABELS": lambda queue: queue.labels,
    }
    none = "No queues yet. `fairlead queue create NAME` creates one."
    spare = ("LIMITS", "LABELS", "ORDER")
    output_formats.print_list(queues, output_format, columns, lambda queue: queue.name, none, spare)


def _report(name: str, changed: list[str]) -> None:
    if not changed:
        typer.echo(f"queue {name} unchanged")
        return
    typer.echo(f"queue {name} changed")
    for line in changed:
        output_formats.print_line(f"  {line}")


def _limits(texts: list[str]) -> dict[str, dict[str, str | float]]:
    """CLASS/RESOURCE=AMOUNT options as the API has them: a number is a fraction of the pool."""
    made: dict[str, dict[str, str | float]] = {}
    for place, text in job_selection.parse_pairs(texts).items():
        class_name, slash, resource = place.partition("/")
        if not (class_name and slash and resource):
            command_base.fail(f"{place!r} is not CLASS/RESOURCE, as in default/cpu=0.5")
        made.setdefault(class_name, {})[resource] = _amount(text)
    return made


def _amount(text: str) -> str | float:
    """A number between 0 and 1 is a fraction, anything else an amount."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if 0 <= number <= 1 else text


def apply(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Option("-f", "--file", help="YAML or JSON; - for standard input.", metavar="FILE"),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the changes, and change nothing.")
    ] = False,
) -> None:
    """Create or change the queues and webhooks that a file describes.

    Documents are {kind: queue, name: ..., weight: ...}, or of the kinds of webhooks, as
    {kind: slack, name: ..., url: ...}. Fields that a document leaves out get their defaults, with
    two exceptions: a cordon stays unless the document has `cordoned`, and secrets stay. Queues and
    webhooks without a document stay as they are. With --dry-run the server checks every document
    and changes nothing.
    """
    from fairlead import Conflict, Invalid

    wanted = _read_documents(file)
    refused = 0
    with command_base.connect(context) as client:
        for document in wanted:
            try:
                if document.queue is not None:
                    _apply(
                        client, document.queue, says_cordon=document.says_cordon, dry_run=dry_run
                    )
                elif document.webhook is not None:
                    _apply_webhook(client, document.webhook, dry_run=dry_run)
            except (Conflict, Invalid) as error:
                explanation = command_base.explain_error(error)
                assert explanation is not None, "every refusal has an explanation"
                command_base.print_message(
                    f"{document.name} is refused; others are unaffected\n{explanation[0]}"
                )
                refused += 1
    if refused:
        raise typer.Exit(command_base.EXIT_REFUSED)


def _apply(client: "Client", wanted: "Queue", *, says_cordon: bool, dry_run: bool) -> None:
    import msgspec

    from fairlead import NotFound, Queue
    from fairlead.cli.support import differences

    try:
        old = client.queue(wanted.name)
    except NotFound:
        client.create_queue(wanted, dry_run=dry_run)
        typer.echo(f"queue {wanted.name} {'would be created' if dry_run else 'created'}")
        _print_lines(differences.list_differences(Queue(name=wanted.name), wanted))
        return
    new = msgspec.structs.replace(wanted, version=old.version)
    if not says_cordon:
        new = msgspec.structs.replace(new, cordoned=old.cordoned, reason=old.reason)
    changed = differences.list_differences(old, new)
    if not changed:
        typer.echo(f"queue {wanted.name} unchanged")
        return
    client.replace_queue(new, dry_run=dry_run)
    typer.echo(f"queue {wanted.name} {'would change' if dry_run else 'changed'}")
    _print_lines(changed)


def _apply_webhook(client: "Client", wanted: "WebhookChange", *, dry_run: bool) -> None:
    """Create or change a webhook, after a dry run. Secrets cannot be compared, so those of a
    document are always written."""
    from fairlead import NotFound
    from fairlead.cli.support import differences
    from fairlead.models.webhook_models import WebhookChange

    try:
        old = webhook_options.to_change(client.webhook(wanted.name))
        send, done = client.replace_webhook, ("would change", "changed")
    except NotFound:
        old = WebhookChange(name=wanted.name)
        send, done = client.create_webhook, ("would be created", "created")
    new = webhook_options.to_change(send(wanted, dry_run=True))
    changed = differences.list_differences(old, new)
    airflow = wanted.airflow
    if wanted.headers or (airflow is not None and (airflow.password or airflow.token)):
        changed.append("secrets: written")
    if not changed:
        typer.echo(f"webhook {wanted.name} unchanged")
        return
    made = None if dry_run else send(wanted)
    typer.echo(f"webhook {wanted.name} {done[not dry_run]}")
    _print_lines(changed)
    if made is not None:
        if made.secret is not None:
            output_formats.print_line(f"  secret: {made.secret}")
        webhook_options.print_missed(made)


def _print_lines(changed: list[str]) -> None:
    for line in changed:
        output_formats.print_line(f"  {line}")


def _read_documents(file: str) -> list[AppliedDocument]:
    """What a file describes; a list in a document is as many documents. Names every error."""
    from fairlead.cli.support import submission_files

    found: list[AppliedDocument] = []
    errors: list[str] = []
    for index, document in enumerate(_flatten(submission_files.load_documents(file)), 1):
        read = _read_document(document)
        if isinstance(read, list):
            errors += [f"  document {index}: {error}" for error in read]
        else:
            found.append(read)
    names = [document.name for document in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    errors += [f"  {name} occurs more than once" for name in twice]
    if errors:
        which = submission_files.describe_file(file)
        command_base.fail("\n".join([f"{which} is not valid; nothing was changed", *errors]))
    return found


def _flatten(found: list[object]) -> list[object]:
    return [each for one in found for each in (one if isinstance(one, list) else [one])]


def _read_document(document: object) -> AppliedDocument | list[str]:
    """What a document describes, or all that is wrong with it."""
    from fairlead import Queue
    from fairlead.models.job_models import QUEUE_BY_SERVER
    from fairlead.models.webhook_models import WebhookChange

    if not isinstance(document, dict):
        return ["is not a mapping like {kind: queue, name: ...}"]
    kind = str(document.get("kind", QUEUE)).lower()
    if kind == QUEUE:
        queue = _convert(document, Queue, ("kind", *QUEUE_BY_SERVER))
        if isinstance(queue, list):
            return queue
        return AppliedDocument(queue=queue, says_cordon="cordoned" in document)
    if kind not in WEBHOOKS:
        return [f"its kind is {kind!r}; use one of {', '.join((QUEUE, *WEBHOOKS))}"]
    # `get -o yaml` has the names of headers, and what other kinds have, empty.
    fields = {
        name: value
        for name, value in document.items()
        if value not in (None, "", []) and not (name == "headers" and isinstance(value, list))
    }
    ignored = [*_SET_BY_SERVER, *([] if kind == "webhook" else ["format"])]
    webhook = _convert({**fields, "kind": kind}, WebhookChange, ignored)
    return webhook if isinstance(webhook, list) else AppliedDocument(webhook=webhook)


def _convert(document: dict[str, Any], kind: Any, ignored: Any) -> Any:
    """The document as this type, or every error. `Any`: one of two types."""
    import msgspec

    fields = {name: value for name, value in document.items() if name not in ignored}
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    errors = [f"{name}: is not a known field" for name in fields if name not in known]
    known_fields = {name: value for name, value in fields.items() if name in known}
    try:
        made = msgspec.convert(known_fields, kind)
    except msgspec.ValidationError as error:
        return [*errors, str(error)]
    return errors or made
