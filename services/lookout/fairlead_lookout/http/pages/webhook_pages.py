"""The pages of webhooks: all of them, and one with its deliveries. They show what the API returns,
to those who manage the webhook."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from fairlead_common.domain import timestamps
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web.auth import Caller
from fairlead_lookout.domain.webhooks.message_templates import FIELDS
from fairlead_lookout.domain.webhooks.webhook_types import EVENT_TYPES, Kind
from fairlead_lookout.http.list_exports import (
    CSV,
    ROWS,
    Accept,
    Format,
    ListExport,
    Rows,
    split_rows,
    stream_list,
)
from fairlead_lookout.http.pages.error_pages import PAGE_HEADERS, build_address
from fairlead_lookout.http.pages.page_sender import PageSender, Values
from fairlead_lookout.http.request_parameters import DELIVERY_ID_MAX, DeliveryState, WebhookName
from fairlead_lookout.http.responses.webhook_responses import (
    DeliveryResponse,
    MissedResponse,
    WebhookResponse,
    describe_delivery,
    describe_replays,
    describe_webhook,
)
from fairlead_lookout.http.webhook_access import WebhookAccess, is_operator

WEBHOOKS_MAX: Final = 1_000
DELIVERIES_MAX: Final = 50
REPLAYED: Final = timedelta(days=1)
SECTION: Final = "webhooks"
KINDS: Final[Mapping[Kind, str]] = {
    "webhook": "Signed requests",
    "slack": "Slack or compatible",
    "email": "E-mail",
    "airflow": "Airflow",
}
_STATES: Final = ("PENDING", "DELIVERED", "FAILED")


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """Both pages, and the deliveries that the browser reads every 2 s."""
    access = WebhookAccess(sender.deps.visibility, sender.deps.webhooks.store)

    @router.get("/webhooks")
    async def list_webhooks(request: Request) -> Response:
        try:
            caller = await sender.deps.visibility.find_caller(request)
            values = await _read_webhooks(sender, access, caller)
        except (Problem, WorldError) as error:
            return sender.error_page(request, error)
        return _render(sender, "webhooks.html", caller, values)

    @router.get("/webhooks/{webhook}")
    async def show_webhook(
        request: Request,
        name: WebhookName,
        state: DeliveryState | None = None,
        before: int = DELIVERY_ID_MAX,
    ) -> Response:
        try:
            caller, values = await _read_webhook(sender, access, request, name, state, before)
        except (Problem, WorldError) as error:
            return sender.error_page(request, error)
        return _render(sender, "webhook.html", caller, values)

    @router.get("/live/webhooks/{webhook}")
    async def show_deliveries(
        request: Request,
        name: WebhookName,
        state: DeliveryState | None = None,
        before: int = DELIVERY_ID_MAX,
    ) -> Response:
        _, values = await _read_webhook(sender, access, request, name, state, before)
        text = sender.templates.render("_deliveries.html", **values)
        return HTMLResponse(text, headers=PAGE_HEADERS)

    _add_exports(router, sender, access)


def _add_exports(router: APIRouter, sender: PageSender, access: WebhookAccess) -> None:
    deps = sender.deps

    @router.get("/export/webhooks")
    async def export_webhooks(
        request: Request, format: Format = None, accept: Accept = CSV
    ) -> Response:
        caller = await deps.visibility.find_caller(request)

        async def read() -> Rows:
            described: list[WebhookResponse] = (await _read_webhooks(sender, access, caller))[
                "webhooks"
            ]
            return described

        export = ListExport("webhooks", WebhookResponse, split_rows(read))
        return await stream_list(deps, export, format, accept)

    @router.get("/export/webhooks/{webhook}")
    async def export_deliveries(
        request: Request,
        name: WebhookName,
        state: DeliveryState | None = None,
        format: Format = None,
        accept: Accept = CSV,
    ) -> Response:
        _, webhook = await access.find(request, name)

        async def read_page(cursor: str | None) -> tuple[Rows, str | None]:
            before = DELIVERY_ID_MAX if cursor is None else int(cursor)
            store = deps.webhooks.deliveries
            page = await store.list_page(webhook.number, before, state, ROWS)
            following = str(page[-1].id) if len(page) == ROWS else None
            return [describe_delivery(each) for each in page], following

        export = ListExport("deliveries", DeliveryResponse, read_page)
        return await stream_list(deps, export, format, accept)


def _render(sender: PageSender, template: str, caller: Caller, values: Values) -> Response:
    values = {**values, "section": SECTION, "who": caller.name, "signed_in": caller.is_session}
    return HTMLResponse(sender.templates.render(template, **values), headers=PAGE_HEADERS)


async def _read_webhooks(sender: PageSender, access: WebhookAccess, caller: Caller) -> Values:
    await access.require_any(caller)
    webhooks = sender.deps.webhooks
    found = await webhooks.store.list_page(
        "", WEBHOOKS_MAX, await access.find_scope(caller), everything=is_operator(caller)
    )
    pending = await webhooks.deliveries.count_pending([each.number for each in found])
    now_ms = clock.now_ms()
    visible_queues = await sender.deps.visibility.find_visible_queues(caller)
    return {
        "webhooks": [describe_webhook(each, pending[each.number], now_ms) for each in found],
        "queues": await sender.deps.view.read_queues(visible_queues),
        "event_types": EVENT_TYPES,
        "kinds": KINDS,
        "template_fields": FIELDS,
        "has_smtp": webhooks.permitted.has_smtp,
    }


async def _read_webhook(
    sender: PageSender,
    access: WebhookAccess,
    request: Request,
    name: str,
    state: str | None,
    before: int,
) -> tuple[Caller, Values]:
    caller, webhook = await access.find(request, name)
    store = sender.deps.webhooks.deliveries
    before = min(max(before, 0), DELIVERY_ID_MAX)
    found = await store.list_page(webhook.number, before, state, DELIVERIES_MAX + 1)
    page, rest = found[:DELIVERIES_MAX], found[DELIVERIES_MAX:]
    pending = await store.count_pending([webhook.number])
    now_ms = clock.now_ms()
    since = timestamps.rfc3339(now_ms - round(REPLAYED.total_seconds() * 1000))
    path = f"/live/webhooks/{webhook.name}"
    older = {"before": page[-1].id, **({"state": state} if state else {})} if rest else {}
    described = describe_webhook(webhook, pending[webhook.number], now_ms)
    return caller, {
        "webhook": described,
        "deliveries": [describe_delivery(each) for each in page],
        "replays": describe_replays(await store.list_replays(webhook.number)),
        "states": _STATES,
        "kinds": KINDS,
        "state": state,
        "exports": build_address(f"/export/webhooks/{webhook.name}", {"state": state}),
        "live": build_address(
            path, {"state": state, "before": str(before) if before < DELIVERY_ID_MAX else None}
        ),
        "older": urlencode(older),
        "replay_since": urlencode({"from": since}),
        "replay_missed": _encode_missed(described.missed),
    }


def _encode_missed(missed: MissedResponse | None) -> str:
    """The query of a replay of what was missed; empty if nothing was."""
    if missed is None or missed.to is None:
        return ""
    return urlencode({"from": missed.from_, "to": missed.to, "only": "all"})
