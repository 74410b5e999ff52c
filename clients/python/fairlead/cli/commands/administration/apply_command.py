"""`fairlead apply`: create or change queues and webhooks as a file describes."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar

import typer

from fairlead.cli.input import webhook_options
from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    import msgspec

    from fairlead import Client, Queue
    from fairlead.models.webhook_models import WebhookChange

Struct = TypeVar("Struct", bound="msgspec.Struct")
QUEUE: Final = "queue"
WEBHOOKS: Final = ("webhook", "slack", "email", "airflow")
"""Kinds of documents for webhooks, which are the kinds of webhooks too."""
_SET_BY_SERVER: Final = frozenset(
    {"version", "credentials", "secrets", "disabled", "failingSince", "lastSuccess", "pending"}
    | {"changed", "by"}
)
"""Fields of a webhook that only the server sets; documents can have them, as `get -o yaml` does."""


class QueueDocument(NamedTuple):
    """A queue, and whether the document says if it is cordoned."""

    queue: "Queue"
    says_cordon: bool

    @property
    def name(self) -> str:
        """`queue a`."""
        return f"queue {self.queue.name}"


class WebhookDocument(NamedTuple):
    """A webhook of any kind."""

    webhook: "WebhookChange"

    @property
    def name(self) -> str:
        """`webhook a`."""
        return f"webhook {self.webhook.name}"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command(
        "apply",
        short_help="Create or change the queues and webhooks of a file.",
        epilog=command_base.format_examples(
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
                match document:
                    case QueueDocument():
                        _apply_queue(client, document, dry_run=dry_run)
                    case WebhookDocument():
                        _apply_webhook(client, document, dry_run=dry_run)
            except (Conflict, Invalid) as error:
                explanation = command_base.explain_error(error)
                assert explanation is not None, "every refusal has an explanation"
                command_base.print_message(
                    f"{document.name} is refused; others are unaffected\n{explanation[0]}"
                )
                refused += 1
    if refused:
        raise typer.Exit(command_base.EXIT_REFUSED)


def _apply_queue(client: "Client", document: QueueDocument, *, dry_run: bool) -> None:
    import msgspec

    from fairlead import NotFound, Queue
    from fairlead.cli.output import differences

    wanted = document.queue
    try:
        old = client.queue(wanted.name)
    except NotFound:
        client.create_queue(wanted, dry_run=dry_run)
        output_formats.print_outcome(
            document.name,
            "would be created" if dry_run else "created",
            differences.list_differences(Queue(name=wanted.name), wanted),
        )
        return
    new = msgspec.structs.replace(wanted, version=old.version)
    if not document.says_cordon:
        new = msgspec.structs.replace(new, cordoned=old.cordoned, reason=old.reason)
    changed = differences.list_differences(old, new)
    if not changed:
        output_formats.print_outcome(document.name, "unchanged")
        return
    client.replace_queue(new, dry_run=dry_run)
    output_formats.print_outcome(document.name, "would change" if dry_run else "changed", changed)


def _apply_webhook(client: "Client", document: WebhookDocument, *, dry_run: bool) -> None:
    """Create or change a webhook, after a dry run. Secrets cannot be compared, so a document
    with secrets always writes them."""
    from fairlead import NotFound
    from fairlead.cli.output import differences
    from fairlead.models.webhook_models import WebhookChange

    wanted = document.webhook
    try:
        old = webhook_options.to_change(client.webhook(wanted.name))
        send, planned, done = client.replace_webhook, "would change", "changed"
    except NotFound:
        old = WebhookChange(name=wanted.name)
        send, planned, done = client.create_webhook, "would be created", "created"
    new = webhook_options.to_change(send(wanted, dry_run=True))
    changed = differences.list_differences(old, new)
    airflow = wanted.airflow
    if wanted.headers or (airflow is not None and (airflow.password or airflow.token)):
        changed.append("secrets: written")
    if not changed:
        output_formats.print_outcome(document.name, "unchanged")
        return
    if dry_run:
        output_formats.print_outcome(document.name, planned, changed)
        return
    made = send(wanted)
    if made.secret is not None:
        changed.append(f"secret: {made.secret}")
    output_formats.print_outcome(document.name, done, changed)
    webhook_options.print_missed(made)


def _read_documents(file: str) -> list[QueueDocument | WebhookDocument]:
    """What a file describes; a list in a document is as many documents. Names every error."""
    from fairlead.cli.input import submission_files

    found: list[QueueDocument | WebhookDocument] = []
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


def _read_document(document: object) -> QueueDocument | WebhookDocument | list[str]:
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
        return QueueDocument(queue, says_cordon="cordoned" in document)
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
    return webhook if isinstance(webhook, list) else WebhookDocument(webhook)


def _convert(
    document: Mapping[str, object], kind: type[Struct], ignored: Collection[str]
) -> Struct | list[str]:
    """The document as this type, or every error."""
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
