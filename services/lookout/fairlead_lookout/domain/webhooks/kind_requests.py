"""The fields of a webhook that depend on its kind, and their validation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fairlead_common.domain.errors import FieldError
from fairlead_lookout.domain.webhooks import airflow_calls
from fairlead_lookout.domain.webhooks.message_templates import (
    SUBJECT_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    check_template,
)
from fairlead_lookout.domain.webhooks.webhook_types import (
    PASSWORD,
    TOKEN,
    AirflowTarget,
    Kind,
    KindOptions,
    Template,
    Webhook,
)

RECIPIENTS_MAX: Final = 20
ADDRESS_LENGTH_MAX: Final = 254
CREDENTIAL_LENGTH_MAX: Final = 8_192
ASSET_LENGTH_MAX: Final = 1_500
CONCURRENCY_DEFAULTS: Final[Mapping[Kind, int]] = {
    "webhook": 8,
    "slack": 1,
    "email": 2,
    "airflow": airflow_calls.CONCURRENCY_MAX,
}
"""Slack accepts a message per second for each of its incoming webhooks."""
CONCURRENCY_MAX: Final[Mapping[Kind, int]] = {
    "webhook": 64,
    "slack": 8,
    "email": 8,
    "airflow": airflow_calls.CONCURRENCY_MAX,
}
_USED: Final[Mapping[str, tuple[Kind, ...]]] = {
    "url": ("webhook", "slack", "airflow"),
    "format": ("webhook",),
    "headers": ("webhook", "slack", "airflow"),
    "template": ("slack", "email"),
    "recipients": ("email",),
    "airflow": ("airflow",),
}
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_API_PATH: Final = re.compile(r"/api/v\d+/?$")
_DAG: Final = re.compile(r"[\w.-]{1,250}")


class KindRequest(
    msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The base of the types below: unknown fields are errors."""


class TemplateRequest(KindRequest, kw_only=True):
    """Texts with fields such as `{queue}`. `subject`: only for email."""

    subject: str | None = None
    text: str | None = None


class AirflowRequest(KindRequest, kw_only=True):
    """What an event starts in Airflow: a run of `dag`, an event of the asset with the URI `asset`,
    or both. `username` and `password`, or `token`; absent secrets are unchanged."""

    dag: Annotated[str, Meta(min_length=1)] | None = None
    asset: Annotated[str, Meta(min_length=1, max_length=ASSET_LENGTH_MAX)] | None = None
    username: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    password: Annotated[str, Meta(min_length=1, max_length=CREDENTIAL_LENGTH_MAX)] | None = None
    token: Annotated[str, Meta(min_length=1, max_length=CREDENTIAL_LENGTH_MAX)] | None = None


class KindFields(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says about these fields; None: absent. `given`: all fields that it has."""

    given: Sequence[str]
    url: str | None
    concurrency: int | None
    template: TemplateRequest | None
    recipients: Sequence[str] | None
    airflow: AirflowRequest | None


def find_errors(
    fields: KindFields, kind: Kind, current: Webhook | None, domains: Sequence[str]
) -> Iterator[FieldError]:
    """What is wrong with them. `current`: the webhook that is replaced. `domains`: to which e-mail
    is permitted; all if it is empty."""
    for name in fields.given:
        if kind not in _USED.get(name, (kind,)):
            yield FieldError(f"/{name}", f"is not used by webhooks of the kind {kind}")
    concurrency_max = CONCURRENCY_MAX[kind]
    if fields.concurrency is not None and fields.concurrency > concurrency_max:
        detail = f"is at most {concurrency_max} for webhooks of the kind {kind}"
        yield FieldError("/concurrency", detail)
    if kind in _USED["url"] and fields.url is None:
        yield FieldError("/url", "is missing")
    if kind in _USED["template"]:
        yield from _find_template_errors(fields.template or TemplateRequest(), kind)
    if kind == "email":
        yield from _find_recipient_errors(fields.recipients or (), domains)
    if kind == "airflow":
        yield from _find_airflow_errors(fields, current)


def _find_template_errors(template: TemplateRequest, kind: Kind) -> Iterator[FieldError]:
    if template.subject is not None:
        if kind != "email":
            yield FieldError("/template/subject", f"is not used by webhooks of the kind {kind}")
        elif refusal := check_template(template.subject, SUBJECT_CHARACTERS_MAX, lines=False):
            yield FieldError("/template/subject", refusal)
    if template.text is not None and (
        refusal := check_template(template.text, TEXT_CHARACTERS_MAX, lines=True)
    ):
        yield FieldError("/template/text", refusal)


def _find_recipient_errors(
    recipients: Sequence[str], domains: Sequence[str]
) -> Iterator[FieldError]:
    if not recipients:
        yield FieldError("/recipients", "is missing: name at least one e-mail address")
    if len(recipients) > RECIPIENTS_MAX:
        detail = f"has {len(recipients)} addresses; at most {RECIPIENTS_MAX} are allowed"
        yield FieldError("/recipients", detail)
    permitted = [domain.lower() for domain in domains]
    for index, address in enumerate(recipients[:RECIPIENTS_MAX]):
        if not is_address(address):
            yield FieldError(f"/recipients/{index}", "is not a valid e-mail address")
        elif permitted and address.rpartition("@")[2].lower() not in permitted:
            detail = f"is not in a permitted domain: {', '.join(permitted)}"
            yield FieldError(f"/recipients/{index}", detail)


def is_address(text: str) -> bool:
    """Whether a text is an e-mail address, without a name and without quotes."""
    return len(text) <= ADDRESS_LENGTH_MAX and _ADDRESS.fullmatch(text) is not None


def _find_airflow_errors(fields: KindFields, current: Webhook | None) -> Iterator[FieldError]:
    given = fields.airflow
    if given is None:
        yield FieldError("/airflow", "is missing")
        return
    if given.dag is None and given.asset is None:
        yield FieldError("/airflow/dag", "is missing; name a DAG, an asset or both")
    if given.dag is not None and (_DAG.fullmatch(given.dag) is None or given.dag in (".", "..")):
        yield FieldError("/airflow/dag", "is not a valid id of a DAG")
    if given.asset is not None and not given.asset.isprintable():
        yield FieldError("/airflow/asset", "contains characters that are not printable")
    if fields.url is not None and _read_query(fields.url):
        yield FieldError("/url", "has a query; give the address of Airflow alone")
    if fields.url is not None and _API_PATH.search(fields.url):
        yield FieldError("/url", "has the path of an API; give the address of Airflow alone")
    if given.token is not None and (given.username is not None or given.password is not None):
        yield FieldError("/airflow/token", "is given beside a user name or password; give only one")
    elif given.password is not None and given.username is None:
        yield FieldError("/airflow/username", "is missing")
    for name, value in ((PASSWORD, given.password), (TOKEN, given.token)):
        if value is not None and not (
            value.isprintable() and (name == PASSWORD or value.isascii())
        ):
            yield FieldError(f"/airflow/{name}", "contains characters that are not allowed")
    yield from _find_credential_errors(given, fields.url, current)


def _find_credential_errors(
    given: AirflowRequest, url: str | None, current: Webhook | None
) -> Iterator[FieldError]:
    """Whether a secret is missing. One that was given for another server is not used for this."""
    if given.password is not None or given.token is not None:
        return
    needed = TOKEN if given.username is None else PASSWORD
    if current is None or needed not in current.credentials:
        text = "is missing" if needed == PASSWORD else "is missing; or give username and password"
        yield FieldError(f"/airflow/{needed}", text)
    elif url is not None and url != current.url:
        yield FieldError(f"/airflow/{needed}", "must be given again, because the URL changes")


def _read_query(url: str) -> str:
    """The query of a URL; empty for an invalid URL, which is an error of its own."""
    try:
        return urlsplit(url).query
    except ValueError:
        return ""


def make_options(fields: KindFields) -> KindOptions:
    """The options of a valid request."""
    template = fields.template
    airflow = fields.airflow
    return KindOptions(
        template=None
        if template is None or (template.subject is None and template.text is None)
        else Template(template.subject, template.text),
        recipients=tuple(dict.fromkeys(fields.recipients or ())),
        airflow=None
        if airflow is None
        else AirflowTarget(airflow.dag, airflow.asset, airflow.username),
    )


def make_credentials(fields: KindFields) -> Mapping[str, str] | None:
    """The secrets of a valid request; None: unchanged."""
    airflow = fields.airflow
    if airflow is None:
        return None
    given = {PASSWORD: airflow.password, TOKEN: airflow.token}
    return {name: value for name, value in given.items() if value is not None} or None
