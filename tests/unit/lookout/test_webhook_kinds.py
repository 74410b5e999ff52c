"""What each kind of webhook accepts: fields, targets, texts and secrets."""

from collections.abc import Mapping

import msgspec
import pytest

from fairlead_common.domain.requests.decoding import Decoder
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks
from fairlead_lookout.domain.webhooks.webhook_requests import (
    Permitted,
    WebhookConfiguration,
    WebhookRequest,
    check_webhook,
)
from fairlead_lookout.domain.webhooks.webhook_types import (
    AirflowTarget,
    EventFilter,
    KindOptions,
    Webhook,
)
from tests.unit.lookout.builders import make_webhook

URL = "https://example.org"
SLACK = {"kind": "slack", "url": f"{URL}/services/T0/B0/x"}
EMAIL = {"kind": "email", "recipients": ["anna@example.org"]}
AIRFLOW = {"kind": "airflow", "url": URL, "airflow": {"dag": "report", "token": "t"}}
PERMITTED = Permitted(parse_networks(["127.0.0.0/8"]), True, ())


def check(
    fields: Mapping[str, object],
    permitted: Permitted = PERMITTED,
    current: Webhook | None = None,
) -> WebhookConfiguration | dict[str, str]:
    given, known = Decoder(WebhookRequest)(msgspec.json.encode({"name": "a", **fields}))
    checked = check_webhook(given, known, permitted, current)
    return {e.pointer: e.detail for e in checked} if isinstance(checked, list) else checked


def made(fields: Mapping[str, object], current: Webhook | None = None) -> WebhookConfiguration:
    checked = check(fields, current=current)
    assert isinstance(checked, WebhookConfiguration), checked
    return checked


def stored(configuration: WebhookConfiguration) -> Webhook:
    """The webhook as it is in the database; sealed values are made up."""
    return make_webhook(
        name=configuration.name,
        url=configuration.url,
        filter=configuration.filter,
        format=configuration.format,
        ordered=configuration.ordered,
        concurrency=configuration.concurrency,
        headers=dict(configuration.headers or {}),
        kind=configuration.kind,
        options=configuration.options,
        credentials=dict.fromkeys(configuration.credentials or (), "sealed"),
    )


@pytest.mark.parametrize("fields", [SLACK, EMAIL, AIRFLOW], ids=lambda fields: fields["kind"])
def test_people_and_airflow_are_sent_only_the_ends_unless_types_are_named(
    fields: Mapping[str, object],
) -> None:
    expected = ("finished",) if fields is AIRFLOW else ("failed", "rejected", "finished")
    assert made(fields).filter == EventFilter(types=expected)
    assert made({**fields, "filter": {"types": ["queued"]}}).filter.types == ("queued",)


def test_options_of_each_kind_are_stored() -> None:
    template = {"subject": "{state}", "text": "{jobSet}"}
    email = made({**EMAIL, "template": template, "recipients": ["a@b.org", "a@b.org"]})
    assert (email.url, email.options.recipients) == ("", ("a@b.org",))
    assert email.options.template == msgspec.convert(template, type(email.options.template))
    airflow = made(AIRFLOW)
    assert airflow.options == KindOptions(airflow=AirflowTarget("report"))
    assert airflow.credentials == {"token": "t"}
    assert (airflow.concurrency, made(SLACK).concurrency) == (8, 1)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"kind": "sms", "url": URL}, "/kind"),
        ({"kind": "slack"}, "/url"),
        ({**SLACK, "url": "https://127.1"}, "/url"),
        ({**SLACK, "url": "ftp://example.org"}, "/url"),
        ({**SLACK, "format": "cloudevents"}, "/format"),
        ({**SLACK, "recipients": ["a@b.org"]}, "/recipients"),
        ({**SLACK, "airflow": {"dag": "x"}}, "/airflow"),
        ({**SLACK, "template": {"subject": "x"}}, "/template/subject"),
        ({**SLACK, "template": {"text": "{unknown}"}}, "/template/text"),
        ({**SLACK, "template": {"colour": "x"}}, "/template/colour"),
        ({**SLACK, "concurrency": 9}, "/concurrency"),
        ({"url": URL, "template": {"text": "x"}}, "/template"),
        ({"kind": "email"}, "/recipients"),
        ({**EMAIL, "recipients": []}, "/recipients"),
        ({**EMAIL, "recipients": ["a@b.org"] * 21}, "/recipients"),
        ({**EMAIL, "recipients": ["a@b.org", "Anna <a@b.org>"]}, "/recipients/1"),
        ({**EMAIL, "recipients": ["a@b.org\r\nBcc: x@y.org"]}, "/recipients/0"),
        ({**EMAIL, "recipients": ["a@b.org, c@d.org"]}, "/recipients/0"),
        ({**EMAIL, "recipients": ["a@b.org\n"]}, "/recipients/0"),
        ({**EMAIL, "recipients": ["@b.org"]}, "/recipients/0"),
        ({**EMAIL, "recipients": ["ä@b.org"]}, "/recipients/0"),
        ({**EMAIL, "recipients": ["a" * 250 + "@b.org"]}, "/recipients/0"),
        ({**EMAIL, "url": URL}, "/url"),
        ({**EMAIL, "headers": {"x": "y"}}, "/headers"),
        ({**EMAIL, "template": {"subject": "a\r\nBcc: x@y.org"}}, "/template/subject"),
        ({**EMAIL, "template": {"subject": "{queue.__class__}"}}, "/template/subject"),
        ({**EMAIL, "template": {"text": "{queue!r}"}}, "/template/text"),
        ({"kind": "airflow", "url": URL}, "/airflow"),
        ({**AIRFLOW, "airflow": {"token": "t"}}, "/airflow/dag"),
        ({**AIRFLOW, "airflow": {"dag": "..", "token": "t"}}, "/airflow/dag"),
        ({**AIRFLOW, "airflow": {"dag": "a/b", "token": "t"}}, "/airflow/dag"),
        ({**AIRFLOW, "airflow": {"dag": "a"}}, "/airflow/token"),
        ({**AIRFLOW, "url": "https://airflow.example.org/api/v2/"}, "/url"),
        ({**AIRFLOW, "airflow": {"dag": "a", "username": "u"}}, "/airflow/password"),
        ({**AIRFLOW, "airflow": {"dag": "a", "password": "p"}}, "/airflow/username"),
        (
            {**AIRFLOW, "airflow": {"dag": "a", "username": "u", "password": "p", "token": "t"}},
            "/airflow/token",
        ),
        ({**AIRFLOW, "airflow": {"dag": "a", "token": "t\r\nx: y"}}, "/airflow/token"),
        ({**AIRFLOW, "airflow": {"asset": "s3://x\n", "token": "t"}}, "/airflow/asset"),
        ({**AIRFLOW, "url": f"{URL}?x=y"}, "/url"),
        ({**AIRFLOW, "url": "https://10.0.0.1"}, "/url"),
        ({**AIRFLOW, "headers": {"Authorization": "x"}}, "/headers/Authorization"),
        ({**AIRFLOW, "concurrency": 9}, "/concurrency"),
    ],
)
def test_each_invalid_field_of_a_kind_is_named(fields: Mapping[str, object], pointer: str) -> None:
    checked = check(fields)
    assert isinstance(checked, dict)
    assert list(checked) == [pointer]


def test_email_needs_a_server_and_a_permitted_domain() -> None:
    refused = check(EMAIL, Permitted())
    assert isinstance(refused, dict)
    assert "smtpHost" in refused["/kind"]
    domains = Permitted((), True, ("example.org",))
    assert isinstance(check(EMAIL, domains), WebhookConfiguration)
    outside = check({**EMAIL, "recipients": ["a@evil.example.org"]}, domains)
    assert outside == {"/recipients/0": "is not in a permitted domain: example.org"}


def test_the_kind_of_a_webhook_cannot_be_changed() -> None:
    current = stored(made(SLACK))
    assert made({"url": URL}, current).kind == "slack"
    changed = check({**EMAIL}, current=current)
    assert isinstance(changed, dict)
    assert "cannot be changed" in changed["/kind"]


def test_a_secret_stays_until_the_server_changes() -> None:
    current = stored(made(AIRFLOW))
    same = {**AIRFLOW, "airflow": {"dag": "other"}}
    assert made(same, current).credentials is None
    elsewhere = check({**same, "url": "https://evil.example.org"}, current=current)
    assert elsewhere == {"/airflow/token": "must be given again, because the URL changes"}
    with_user = check({**AIRFLOW, "airflow": {"dag": "a", "username": "u"}}, current=current)
    assert with_user == {"/airflow/password": "is missing"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://hooks.example.org/a", "https://hooks.example.com/a"),
        ("https://hooks.example.org/a", "https://hooks.example.org:8443/a"),
        ("https://hooks.example.org/a", "https://hooks.example.org.example.com/a"),
        ("https://127.0.0.1/a", "http://127.0.0.1/a"),
    ],
)
def test_headers_are_not_sent_to_another_server(before: str, after: str) -> None:
    headers = {"Authorization": "Bearer sesame"}
    current = stored(made({"url": before, "headers": headers}))
    refused = check({"url": after}, current=current)
    assert refused == {
        "/headers": "must be given again, or {} for none, because the URL names another server"
    }
    assert made({"url": after, "headers": {}}, current).headers == {}
    assert made({"url": after, "headers": headers}, current).headers == headers


def test_headers_stay_where_the_url_names_the_same_server() -> None:
    current = stored(made({"url": f"{URL}/a", "headers": {"Authorization": "Bearer sesame"}}))
    for url in (f"{URL}/b?c=d", "https://EXAMPLE.org:443/a"):
        assert made({"url": url}, current).headers is None
    assert made({"url": "https://example.com"}, stored(made({"url": URL}))).headers is None
