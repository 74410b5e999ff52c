"""`fairlead webhook create`, `list`, `get`, `update`, `delete`, `rotate`, `test`, `deliveries`,
`replay`: requests and messages about events."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.input import webhook_options
from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead.models.webhook_models import Delivery, Webhook

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the webhook.")]
_NOT_FOUND = "`fairlead webhook list` lists them"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="Send events to programs, Slack, e-mail and Airflow.", no_args_is_help=True
    )
    commands: Mapping[str, tuple[Callable[..., None], str]] = {
        "list": (list_all, "fairlead webhook list"),
        "get": (get, "fairlead webhook get results -o yaml"),
        "update": (update, "fairlead webhook update results --jobset 'scan-*' --enable"),
        "delete": (delete, "fairlead webhook delete results"),
        "rotate": (rotate, "fairlead webhook rotate results --overlap 3600"),
        "test": (test, "fairlead webhook test results"),
        "deliveries": (deliveries, "fairlead webhook deliveries results --state FAILED"),
        "replay": (replay, "fairlead webhook replay results --since 2026-01-31T00:00:00Z --all"),
    }
    group.command(
        "create",
        epilog=command_base.format_examples(
            "fairlead webhook create results --url https://example.org/x -q physics",
            "fairlead webhook create chat --kind slack --url https://chat.org/x -q a",
            "fairlead webhook create mail --kind email --to a@example.org -q physics",
            "fairlead webhook create dag --kind airflow --url https://a.org --dag report",
        ),
    )(create)
    for name, (command, example) in commands.items():
        group.command(name, epilog=command_base.format_examples(example))(command)
    app.add_typer(group, name="webhook")


@webhook_options.with_webhook_options
def create(
    context: typer.Context,
    name: Name,
    options: webhook_options.Options,
    kind: Annotated[
        str | None,
        typer.Option(help="webhook (default), slack, email or airflow.", metavar="KIND"),
    ] = None,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Create a webhook. The secret of a webhook that signs is printed now, and never again."""
    from fairlead.models.webhook_models import WebhookChange

    change = webhook_options.merge_options(WebhookChange(name=name, kind=kind), options)
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
        "KIND": lambda webhook: webhook.kind,
        "TARGET": _describe_target,
        "QUEUE": lambda webhook: webhook.filter.queue or "all",
        "STATE": _describe_state,
        "PENDING": lambda webhook: webhook.pending,
        "LAST SUCCESS": lambda webhook: webhook.last_success or "",
    }
    with command_base.connect(context) as client:
        found = list(client.webhooks())
    spare = ("LAST SUCCESS", "TARGET")
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
            ("Kind", webhook.kind),
            ("Target", _describe_target(webhook)),
            ("Queue", webhook.filter.queue or "all"),
            ("Job sets", webhook.filter.job_set or "all"),
            ("Types", webhook.filter.types or "all"),
            ("Format", webhook.format if webhook.kind == "webhook" else ""),
            ("Subject", webhook.template.subject if webhook.template else ""),
            ("Text", webhook.template.text if webhook.template else ""),
            ("Ordered", "yes" if webhook.ordered else "no"),
            ("Concurrency", webhook.concurrency),
            ("Headers", webhook.headers),
            ("State", _describe_state(webhook)),
            ("Disabled because", webhook.disabled),
            ("Failing since", webhook.failing_since),
            ("Last success", webhook.last_success),
            ("Not delivered", _describe_missed(webhook)),
            ("Pending", webhook.pending),
            ("Changed", f"{webhook.changed} by {webhook.by}"),
        ]
    )


@webhook_options.with_webhook_options
def update(
    context: typer.Context,
    name: Name,
    options: webhook_options.Options,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether deliveries are sent.")
    ] = None,
) -> None:
    """Change a webhook; what is not given stays."""
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(_NOT_FOUND, NotFound):
        known = webhook_options.to_change(client.webhook(name))
        given = options if enabled is None else {**options, "enabled": enabled}
        changed = client.replace_webhook(webhook_options.merge_options(known, given))
    typer.echo(f"webhook {name} changed")
    if enabled:
        webhook_options.print_missed(changed)


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
    limit: output_formats.LimitOption = 50,
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
        typer.echo(f"deliveries that are sent again: {started.replayed:,}")


def _describe_state(webhook: "Webhook") -> str:
    if not webhook.enabled:
        return "disabled"
    return "failing" if webhook.failing_since else "enabled"


def _describe_missed(webhook: "Webhook") -> str:
    """The time of the events that were not delivered, because it was disabled."""
    if webhook.missed is None:
        return ""
    since, until = webhook.missed.since, webhook.missed.until
    return f"events since {since}" if until is None else f"events from {since} to {until}"


def _describe_target(webhook: "Webhook") -> str:
    """Where deliveries go, in one line."""
    parts = [webhook.url, *webhook.recipients]
    if webhook.airflow is not None:
        parts += [f"DAG {webhook.airflow.dag}"] if webhook.airflow.dag else []
        parts += [f"asset {webhook.airflow.asset}"] if webhook.airflow.asset else []
    return ", ".join(part for part in parts if part)


def _print_secret(webhook: "Webhook", output_format: output_formats.Format) -> None:
    if output_format in (output_formats.Format.JSON, output_formats.Format.YAML):
        output_formats.print_object(webhook, output_format)
        return
    if webhook.secret is None:
        typer.echo(f"webhook {webhook.name} created")
        return
    command_base.print_message(f"webhook {webhook.name}: its secret, to verify signatures:")
    typer.echo(webhook.secret)
