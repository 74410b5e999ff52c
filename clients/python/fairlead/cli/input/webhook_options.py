"""The options that describe a webhook, for `webhook create` and `webhook update`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead.models.webhook_models import Webhook, WebhookChange

Options = Mapping[str, Any]
"""The given options by name; `Any`: of several types."""
Url = Annotated[
    str | None,
    typer.Option(help="The address of the receiver, of Slack or of Airflow.", metavar="URL"),
]
Queue = Annotated[
    str | None, typer.Option("--queue", "-q", help="Only events of this queue.", metavar="QUEUE")
]
JobSet = Annotated[
    str | None,
    typer.Option("--jobset", help="Only job sets that match, as 'scan-*'.", metavar="PATTERN"),
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
Recipient = Annotated[
    list[str] | None,
    typer.Option("--to", help="email: a recipient; may be repeated.", metavar="ADDRESS"),
]
Subject = Annotated[
    str | None,
    typer.Option(help="email: the subject, with fields; '' for the default.", metavar="TEMPLATE"),
]
Text = Annotated[
    str | None,
    typer.Option(
        help="slack, email: the text, as '{jobSet}: {counts}'; '' for the default.",
        metavar="TEMPLATE",
    ),
]
Dag = Annotated[str | None, typer.Option(help="airflow: the DAG to start.", metavar="ID")]
Asset = Annotated[
    str | None, typer.Option(help="airflow: the URI of the asset to update.", metavar="URI")
]
Username = Annotated[str | None, typer.Option(help="airflow: who signs in.", metavar="NAME")]
PasswordFile = Annotated[
    str | None, typer.Option(help="airflow: a file with the password.", metavar="FILE")
]
TokenFile = Annotated[
    str | None, typer.Option(help="airflow: a file with a token instead.", metavar="FILE")
]
_FILTER: Final = ("queue", "job_set", "types")
_TEMPLATE: Final = ("subject", "text")
_AIRFLOW: Final = ("dag", "asset", "username", "password", "token")


def with_webhook_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that describe a webhook; it gets them as `options`."""
    return command_base.add_options(command, make_options, "options")


def make_options(
    url: Url = None,
    queue: Queue = None,
    job_set: JobSet = None,
    event_type: Type = None,
    body_format: BodyFormat = None,
    ordered: Ordered = None,
    concurrency: Concurrency = None,
    header: Header = None,
    recipient: Recipient = None,
    subject: Subject = None,
    text: Text = None,
    dag: Dag = None,
    asset: Asset = None,
    username: Username = None,
    password_file: PasswordFile = None,
    token_file: TokenFile = None,
) -> Options:
    """What was given, by the names of the fields."""
    values = {
        "url": url,
        "queue": queue,
        "job_set": job_set,
        "types": None if event_type is None else tuple(event_type),
        "format": body_format,
        "ordered": ordered,
        "concurrency": concurrency,
        "headers": None if header is None else dict(map(_read_header, header)),
        "recipients": None if recipient is None else tuple(recipient),
        "subject": subject,
        "text": text,
        "dag": dag,
        "asset": asset,
        "username": username,
        "password": None if password_file is None else read_secret(password_file),
        "token": None if token_file is None else read_secret(token_file),
    }
    return {name: value for name, value in values.items() if value is not None}


def merge_options(known: "WebhookChange", options: Options) -> "WebhookChange":
    """The configuration with what was given; an empty text stands for the default."""
    import msgspec

    from fairlead.models.webhook_models import AirflowTarget, WebhookFilter, WebhookTemplate

    groups = {
        "filter": (_FILTER, known.filter or WebhookFilter()),
        "template": (_TEMPLATE, known.template or WebhookTemplate()),
        "airflow": (_AIRFLOW, known.airflow or AirflowTarget()),
    }
    changed: dict[str, Any] = {}
    for group, (names, before) in groups.items():
        given = {name: options[name] or None for name in names if name in options}
        if group == "airflow" and "token" in given:
            given["username"] = given.get("username")
        if given:
            changed[group] = msgspec.structs.replace(before, **given)
    in_groups = {*_FILTER, *_TEMPLATE, *_AIRFLOW}
    own = {name: value for name, value in options.items() if name not in in_groups}
    return msgspec.structs.replace(known, **changed, **own)


def to_change(webhook: "Webhook") -> "WebhookChange":
    """The configuration of a webhook, as it is sent back to change it. Secrets are unchanged."""
    from fairlead.models.webhook_models import (
        AirflowTarget,
        WebhookChange,
        WebhookFilter,
        WebhookTemplate,
    )

    template, airflow = webhook.template, webhook.airflow
    return WebhookChange(
        name=webhook.name,
        kind=webhook.kind,
        url=webhook.url or None,
        filter=WebhookFilter(
            queue=webhook.filter.queue,
            job_set=webhook.filter.job_set,
            types=webhook.filter.types or None,
        ),
        format=webhook.format if webhook.kind == "webhook" else None,
        ordered=webhook.ordered,
        concurrency=webhook.concurrency,
        template=None
        if template is None
        else WebhookTemplate(subject=template.subject, text=template.text),
        recipients=webhook.recipients or None,
        airflow=None
        if airflow is None
        else AirflowTarget(dag=airflow.dag, asset=airflow.asset, username=airflow.username),
        enabled=webhook.enabled,
    )


def read_secret(file: str) -> str:
    """The content of a file: every user of this machine can read a command line."""
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        command_base.fail(f"{file} cannot be read: {error.strerror}")


def _read_header(text: str) -> tuple[str, str]:
    """A header whose value is in a file."""
    name, _, source = text.partition("=")
    if not name or not source.startswith("@"):
        command_base.fail(f"write --header {name or 'NAME'}=@FILE")
    return name, read_secret(source[1:])


def print_missed(webhook: "Webhook") -> None:
    """Print how to deliver what an enabled webhook missed while it was disabled."""
    missed = webhook.missed
    if missed is None or missed.until is None:
        return
    command_base.print_message(
        f"Events from {missed.since} to {missed.until} were not delivered. To deliver them:"
        f" fairlead webhook replay {webhook.name} --since {missed.since} --until {missed.until}"
        " --all"
    )
