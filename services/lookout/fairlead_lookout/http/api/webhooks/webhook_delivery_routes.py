"""Routes of the deliveries of a webhook: what was sent, a test, and replays."""

import asyncio
import secrets
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from fairlead_common.domain import timestamps
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web import openapi, rate_limits
from fairlead_common.web.auth import Caller
from fairlead_common.web.rate_limits import RateLimiter
from fairlead_common.web.requests import query_validation
from fairlead_common.web.requests.query_validation import Wait
from fairlead_lookout.domain.webhooks.delivery_bodies import CONTENT_TYPES, make_test
from fairlead_lookout.domain.webhooks.webhook_types import Webhook
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.long_polls import after_position
from fairlead_lookout.http.request_parameters import (
    DELIVERY_ID_MAX,
    Cursor,
    DeliveryState,
    Limit,
    Time,
    WebhookName,
    parse_time_ms,
)
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.http.responses.webhook_responses import (
    DeliveriesResponse,
    DeliveryResponse,
    ReplayedResponse,
    ReplaysResponse,
    describe_delivery,
    describe_replays,
)
from fairlead_lookout.http.webhook_access import WebhookAccess
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.webhooks.delivery_store import Delivery

TEST_S: Final = 15.0
TEST_POLL_S: Final = 0.1
TESTS_BURST: Final = 10
TESTS_PER_S: Final = 1 / 6
"""The rate of test deliveries of one webhook, and of those that one caller requests."""
TEST_KEYS_MAX: Final = 10_000
TIME_MS_MAX: Final = 2**52
DeliveryId = Annotated[int, Path(ge=1, le=DELIVERY_ID_MAX)]


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Deliveries, tests and replays."""
    access = WebhookAccess(deps.visibility, deps.webhooks.store)
    _add_reads(router, deps, access)
    _add_test(router, deps, access)
    _add_replays(router, deps, access)


def _add_reads(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    @router.get(
        "/webhooks/{webhook}/deliveries",
        summary="The deliveries of a webhook, the newest first",
        dependencies=[after_position(deps)],
        responses=document_responses(DeliveriesResponse, "Some of them.", 400, 404),
    )
    async def list_deliveries(
        request: Request,
        name: WebhookName,
        state: DeliveryState | None = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        _, webhook = await access.find(request, name)
        query = ("deliveries", webhook.number, state)
        seen = list_cursors.decode(query, cursor)
        before = DELIVERY_ID_MAX if seen is None else seen[0]
        found = await deps.webhooks.deliveries.list_page(webhook.number, before, state, limit + 1)
        page, rest = found[:limit], found[limit:]
        return json_response(
            DeliveriesResponse(
                deliveries=[describe_delivery(each) for each in page],
                next=list_cursors.encode(query, page[-1].id) if rest else None,
            )
        )

    @router.get(
        "/webhooks/{webhook}/deliveries/{delivery}",
        summary="One delivery, with its body",
        dependencies=[after_position(deps)],
        responses=document_responses(DeliveryResponse, "The delivery.", 400, 404),
    )
    async def get_delivery(request: Request, name: WebhookName, delivery: DeliveryId) -> Response:
        _, webhook = await access.find(request, name)
        found = await _get_delivery(deps, webhook, delivery)
        return json_response(describe_delivery(found, with_body=True))

    @router.get(
        "/webhooks/{webhook}/replays",
        summary="The last replays of a webhook",
        dependencies=[after_position(deps)],
        responses=document_responses(ReplaysResponse, "The newest first.", 400, 404),
    )
    async def list_replays(request: Request, name: WebhookName) -> Response:
        _, webhook = await access.find(request, name)
        replays = await deps.webhooks.deliveries.list_replays(webhook.number)
        return json_response(ReplaysResponse(replays=describe_replays(replays)))


def _add_test(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    tests: RateLimiter[str | int] = RateLimiter(TESTS_PER_S, TESTS_BURST, TEST_KEYS_MAX)

    @router.post(
        "/webhooks/{webhook}/test",
        summary="Send a test delivery, also of a disabled webhook, and wait for its result;"
        " in Airflow it starts nothing",
        responses=document_responses(DeliveryResponse, "The test delivery.", 404),
    )
    async def test_webhook(request: Request, name: WebhookName, wait: Wait = None) -> Response:
        caller, webhook = await access.find(request, name)
        wait_s = query_validation.parse_wait_s(wait, TEST_S)
        _count_test(tests, caller, webhook)
        now_ms = clock.now_ms()
        message_id = f"test_{secrets.token_hex(8)}"
        base_url = deps.webhooks.base_url
        time = timestamps.rfc3339(now_ms)
        body = make_test(webhook, caller.name, message_id, time, base_url)
        deliveries = deps.webhooks.deliveries
        number = await deliveries.add_test(
            webhook.number, message_id, body, CONTENT_TYPES[webhook.format], now_ms
        )
        deadline_s = clock.monotonic_s() + wait_s
        with Slot(deps, "waits"):
            while True:
                found = await _get_delivery(deps, webhook, number)
                if found.state != "PENDING" or clock.monotonic_s() >= deadline_s:
                    return json_response(describe_delivery(found, with_body=True))
                await asyncio.sleep(TEST_POLL_S)


def _count_test(tests: RateLimiter[str | int], caller: Caller, webhook: Webhook) -> None:
    """Count a test delivery. Raises a 429 `Problem` beyond the limit of the webhook or caller."""
    now_s = clock.monotonic_s()
    waits_s = {key: tests.wait_s(key, now_s) for key in (webhook.number, caller.name)}
    if (wait_s := max(waits_s.values())) > 0:
        raise Problem(
            "too-many-requests",
            f"Too many test deliveries: each webhook and each caller has {TESTS_BURST} at once, and"
            f" one more every {1 / TESTS_PER_S:g} s. Wait as long as `Retry-After` says.",
            retry_after_s=rate_limits.retry_after_s(wait_s),
        )
    for key in waits_s:
        tests.take(key, now_s)


def _add_replays(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    async def require_access(request: Request, name: WebhookName) -> None:
        """Before the parameters are validated."""
        await access.find(request, name)

    @router.post(
        "/webhooks/{webhook}/deliveries/{delivery}/replay",
        summary="Send a delivery again, with the same id, or now if it waits for another attempt",
        dependencies=[Depends(require_access)],
        responses=document_responses(DeliveryResponse, "The delivery.", 404, 409),
    )
    async def replay_delivery(
        request: Request, name: WebhookName, delivery: DeliveryId
    ) -> Response:
        _, webhook = await access.find(request, name)
        found = await deps.webhooks.deliveries.replay(webhook.number, delivery, clock.now_ms())
        if found is None:
            pending = await _get_delivery(deps, webhook, delivery)
            raise Problem(
                "conflict", f"Delivery {pending.id} is pending: it is sent as soon as possible."
            )
        return json_response(describe_delivery(found))

    @router.post(
        "/webhooks/{webhook}/replay",
        summary="Send the deliveries of the events of a time again",
        dependencies=[Depends(require_access)],
        responses={
            202: openapi.answer(ReplayedResponse, "They are sent in the background."),
            **openapi.problems(404, 409),
        },
        status_code=202,
    )
    async def replay_webhook(
        request: Request,
        name: WebhookName,
        from_: Annotated[
            Time, Query(alias="from", max_length=40, description="Events since this time.")
        ],
        to: Annotated[
            Time | None, Query(max_length=40, description="Events before this time; default: now.")
        ] = None,
        only: Annotated[
            Literal["failed", "all"],
            Query(
                description="`failed` deliveries and those that wait for another attempt, or `all`"
                " events that match the filter now."
            ),
        ] = "failed",
    ) -> Response:
        caller, webhook = await access.find(request, name)
        now_ms = clock.now_ms()
        from_ms, to_ms = parse_time_ms(from_), now_ms if to is None else parse_time_ms(to)
        _check_times(from_ms, to_ms, has_to=to is not None)
        deliveries = deps.webhooks.deliveries
        if only == "failed":
            count = await deliveries.replay_failed(webhook.number, from_ms, to_ms, now_ms)
            answer = json_response(ReplayedResponse(replayed=count, replay=None))
        else:
            replay = await deliveries.add_replay(
                webhook.number, from_ms, to_ms, now_ms, caller.name
            )
            if replay is None:
                raise Problem("conflict", "A replay of this webhook is running. Try again later.")
            (described,) = describe_replays([replay])
            answer = json_response(ReplayedResponse(replayed=0, replay=described))
        answer.status_code = 202
        return answer


def _check_times(from_ms: int, to_ms: int, *, has_to: bool) -> None:
    """Raises a `Problem` unless they are times after 1970, and the first is earlier."""
    errors = [
        FieldError(f"/query/{name}", "must be between the years 1970 and 10000")
        for name, time_ms in (("from", from_ms), ("to", to_ms))
        if not 0 <= time_ms <= TIME_MS_MAX
    ]
    if not errors and from_ms >= to_ms:
        wrong = ("to", "must be later than `from`") if has_to else ("from", "must be in the past")
        errors = [FieldError(f"/query/{wrong[0]}", wrong[1])]
    if errors:
        raise Problem("invalid", "A parameter is not valid.", errors)


async def _get_delivery(deps: Deps, webhook: Webhook, delivery: int) -> Delivery:
    found = await deps.webhooks.deliveries.get(webhook.number, delivery)
    if found is None:
        raise Problem(
            "not-found",
            f"Webhook {webhook.name!r} has no delivery {delivery}. Deliveries are retained for a"
            " limited time.",
        )
    return found
