"""`fairlead webhook create`, `list`, `get`, `update`, `delete`, `rotate`, `test`, `deliveries`,
`replay`: signed requests about events."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fairlead.cli.support import command_base, output_formats

if TYPE_CHECKING:
    import msgspec

    from fairlead.models.webhook_models import Delivery, Webhook, WebhookChange

T = TypeVar("T", bound="msgspec.Struct")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the webhook.")]
Url = Annotated[str | None, typer.Option(help="The address of the receiver.", metavar="URL")]
Queue = Annotated[
    str | None, typer.Option("--queue", "-q", help="Only events of this queue.", metavar="QUEUE")
]
JobSet = Annotated[
    str | None,
    typer.Option("--job-set", help="Only job sets that match, as 'scan-*'.", metavar="PATTERN"),
]
Type = Annotated[
    list[str] | None,
    typer.Option("--type", help="Only events of this type; may be repeated.", metavar="TYPE"),
]
BodyFormat = Annotated[
    str | None, typer.Option("--format", help="fairlead or cloudevents.", metavar="FORMAT")
]
Ordered = Annotated[
    bool | None,
    typer.Option("--ordered/--unordered", help="Send the events of a job set in order."),
]
Concurrency = Annotated[
    int | None, typer.Option(help="Requests at the same time.", metavar="NUMBER")
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        help="An additional header, its value in a file; may be repeated.", metavar="NAME=@FILE"
    ),
]
_NOT_FOUND = "`fairlead webhook list` lists them"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Send signed requests about events.", no_args_is_help=True)
    create_example = "fairlead webhook create results --url https://example.org/x -q physics"
    commands: Mapping[str, tuple[Callable[..., None], str]] = {
        "create": (create, create_example),
        "list": (list_all, "fairlead webhook list"),
        "get": (get, "fairlead webhook get results -o yaml"),
        "update": (update, "fairlead webhook update results --job-set 'scan-*' --enable"),
        "delete": (delete, "fairlead webhook delete results"),
        "rotate": (rotate, "fairlead webhook rotate results --overlap 3600"),
        "test": (test, "fairlead webhook test results"),
        "deliveries": (deliveries, "fairlead webhook deliveries results --state FAILED"),
        "replay": (replay, "fairlead webhook replay results --since 2026-01-31T00:00:00Z --all"),
    }
    for name, (command, example) in commands.items():
        group.command(name, epilog=command_base.format_examples(example))(command)
    app.add_typer(group, name="webhook")


def create(
    context: typer.Context,
    name: Name,
    url: Annotated[str, typer.Option(help="The address of the receiver.", metavar="URL")],
    queue: Queue = None,
    job_set: JobSet = None,
    event_type: Type = None,
    body_format: BodyFormat = None,
    ordered: Ordered = None,
    concurrency: Concurrency = None,
    header: Header = None,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Create a webhook. Its secret is printed now and cannot be printed again."""
    from fairlead.models.webhook_models import WebhookChange, WebhookFilter

    change = _merge(
        WebhookChange(name=name, url=url, filter=WebhookFilter()),
        queue=queue,
        job_set=job_set,
        event_type=event_type,
        body_format=body_format,
        ordered=ordered,
        concurrency=concurrency,
        header=header,
    )
    with command_base.connect(context) as client:
        made = client.create_webhook(change)
    _print_secret(made, output_format)


def list_all(
    context: typer.Context,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List the webhooks that you manage."""
    columns: output_formats.Columns[Webhook] = {
        "NAME": lambda webhook: webhook.name,
        "URL": lambda webhook: webhook.url,
        "QUEUE": lambda webhook: webhook.filter.queue or "all",
        "STATE": _describe_state,
        "PENDING": lambda webhook: webhook.pending,
        "LAST SUCCESS": lambda webhook: webhook.last_success or "",
    }
    with command_base.connect(context) as client:
        found = list(client.webhooks())
    spare = ("LAST SUCCESS", "URL")
    output_formats.print_list(
        found, output_format, columns, lambda webhook: webhook.name, "No webhooks.", spare
    )


def get(
    context: typer.Context,
    name: Name,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show a webhook, without its secrets."""
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        webhook = client.webhook(name)
    if output_format is not output_formats.Format.TABLE:
        output_formats.print_object(webhook, output_format)
        return
    output_formats.print_fields(
        [
            ("Name", webhook.name),
            ("URL", webhook.url),
            ("Queue", webhook.filter.queue or "all"),
            ("Job sets", webhook.filter.job_set or "all"),
            ("Types", webhook.filter.types or "all"),
            ("Format", webhook.format),
            ("Ordered", "yes" if webhook.ordered else "no"),
            ("Concurrency", webhook.concurrency),
            ("Headers", webhook.headers),
            ("State", _describe_state(webhook)),
            ("Disabled because", webhook.disabled),
            ("Failing since", webhook.failing_since),
            ("Last success", webhook.last_success),
            ("Pending", webhook.pending),
            ("Changed", f"{webhook.changed} by {webhook.by}"),
        ]
    )


def update(
    context: typer.Context,
    name: Name,
    url: Url = None,
    queue: Queue = None,
    job_set: JobSet = None,
    event_type: Type = None,
    body_format: BodyFormat = None,
    ordered: Ordered = None,
    concurrency: Concurrency = None,
    header: Header = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether deliveries are sent.")
    ] = None,
) -> None:
    """Change a webhook; what is not given stays."""
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        change = _merge(
            _to_change(client.webhook(name)),
            url=url,
            queue=queue,
            job_set=job_set,
            event_type=event_type,
            body_format=body_format,
            ordered=ordered,
            concurrency=concurrency,
            header=header,
            enabled=enabled,
        )
        client.replace_webhook(change)
    typer.echo(f"webhook {name} changed")


def delete(context: typer.Context, name: Name) -> None:
    """Delete a webhook. Pending deliveries are not sent."""
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        client.delete_webhook(name)
    typer.echo(f"webhook {name} deleted")


def rotate(
    context: typer.Context,
    name: Name,
    overlap: Annotated[
        int | None,
        typer.Option(
            help="Seconds for which the previous secret stays valid; default: a day.",
            metavar="SECONDS",
        ),
    ] = None,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Add a secret. It is printed now and cannot be printed again."""
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        webhook = client.rotate_webhook_secret(name, overlap_s=overlap)
    _print_secret(webhook, output_format)


def test(context: typer.Context, name: Name) -> None:
    """Send a test delivery and print its result; exit code 1 if it failed."""
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        delivery = client.test_webhook(name)
    if delivery.state == "DELIVERED":
        typer.echo(f"delivered: status {delivery.status} after {delivery.duration_ms} ms")
        return
    output_formats.print_line(delivery.error or "The test delivery is still pending.")
    raise typer.Exit(1)


def deliveries(
    context: typer.Context,
    name: Name,
    state: Annotated[
        str | None, typer.Option(help="PENDING, DELIVERED or FAILED.", metavar="STATE")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this number.", metavar="N")] = 50,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List the deliveries of a webhook, the newest first."""
    from fairlead import NotFound

    columns: output_formats.Columns[Delivery] = {
        "ID": lambda delivery: delivery.id,
        "TYPE": lambda delivery: delivery.type,
        "JOB SET": lambda delivery: delivery.job_set or "",
        "STATE": lambda delivery: delivery.state,
        "ATTEMPTS": lambda delivery: delivery.attempts,
        "STATUS": lambda delivery: delivery.status or "",
        "CREATED": lambda delivery: delivery.created or "",
        "ERROR": lambda delivery: delivery.error or "",
    }
    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        found = output_formats.take_first(client.webhook_deliveries(name, state=state), limit)
    spare = ("CREATED", "JOB SET", "ERROR")
    output_formats.print_list(
        found, output_format, columns, lambda each: each.id, "No deliveries.", spare
    )


def replay(
    context: typer.Context,
    name: Name,
    delivery: Annotated[
        str | None, typer.Argument(metavar="[DELIVERY]", help="The id of one delivery.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Events since this time.", metavar="TIME")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Events before this time.", metavar="TIME")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All events, not only failed deliveries.")
    ] = False,
) -> None:
    """Send one delivery again, or all deliveries of the events of a period."""
    from fairlead import NotFound

    if (delivery is None) == (since is None):
        command_base.fail("give either the id of a delivery or --since TIME")
    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        if delivery is not None:
            client.replay_delivery(name, delivery)
            typer.echo(f"delivery {delivery} is sent again")
            return
        started = client.replay_webhook(name, since=since or "", until=until, everything=everything)
    if started.replay is not None:
        typer.echo(f"replay {started.replay.number} has started")
    else:
        typer.echo(f"failed deliveries that are sent again: {started.replayed:,}")


def _describe_state(webhook: "Webhook") -> str:
    if not webhook.enabled:
        return "disabled"
    return "failing" if webhook.failing_since else "enabled"


def _to_change(webhook: "Webhook") -> "WebhookChange":
    from fairlead.models.webhook_models import WebhookChange, WebhookFilter

    return WebhookChange(
        name=webhook.name,
        url=webhook.url,
        filter=WebhookFilter(
            queue=webhook.filter.queue,
            job_set=webhook.filter.job_set,
            types=webhook.filter.types or None,
        ),
        format=webhook.format,
        ordered=webhook.ordered,
        concurrency=webhook.concurrency,
        enabled=webhook.enabled,
    )


def _merge(
    known: "WebhookChange",
    *,
    queue: str | None,
    job_set: str | None,
    event_type: list[str] | None,
    body_format: str | None,
    ordered: bool | None,
    concurrency: int | None,
    header: list[str] | None,
    url: str | None = None,
    enabled: bool | None = None,
) -> "WebhookChange":
    """The configuration with the options that are given; None leaves a field unchanged."""
    import msgspec

    assert known.filter is not None
    types = tuple(event_type or ()) or None
    event_filter = _replace_given(known.filter, queue=queue, job_set=job_set, types=types)
    change = _replace_given(
        known,
        url=url,
        format=body_format,
        ordered=ordered,
        concurrency=concurrency,
        enabled=enabled,
        headers=dict(map(_read_header, header)) if header else None,
    )
    return msgspec.structs.replace(change, filter=event_filter)


def _replace_given(known: T, **fields: object) -> T:
    """The struct with these fields replaced; None leaves a field unchanged."""
    import msgspec

    given = {name: value for name, value in fields.items() if value is not None}
    return msgspec.structs.replace(known, **given)


def _print_secret(webhook: "Webhook", output_format: output_formats.Format) -> None:
    if output_format in (output_formats.Format.JSON, output_formats.Format.YAML):
        output_formats.print_object(webhook, output_format)
        return
    command_base.print_message(f"webhook {webhook.name}: its secret, to verify signatures:")
    typer.echo(webhook.secret)


def _read_header(text: str) -> tuple[str, str]:
    """A header whose value is in a file: every user of this machine can read a command line."""
    name, _, source = text.partition("=")
    if not name or not source.startswith("@"):
        command_base.fail(f"write --header {name or 'NAME'}=@FILE")
    try:
        return name, Path(source[1:]).read_text().strip()
    except OSError as error:
        command_base.fail(f"{source[1:]} cannot be read: {error.strerror}")
