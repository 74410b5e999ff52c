"""The deliveries that public events make: one row for each webhook whose filter matches."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.timestamps import find_day
from fairlead_lookout.domain.public_events import PublicEvent, parse_id
from fairlead_lookout.domain.webhooks.delivery_bodies import (
    CONTENT_TYPES,
    find_body_key,
    make_body,
    make_message_id,
)
from fairlead_lookout.domain.webhooks.webhook_types import Webhook
from fairlead_lookout.store.webhooks.delivery_store import Place
from fairlead_lookout.store.webhooks.fan_out_store import NewDelivery

_decode_lines: Final = msgspec.json.Decoder(PublicEvent).decode_lines


class DeliveryEncoder:
    """Makes rows of events. `log`: the identity of the log; `base_url`: the dashboard's."""

    def __init__(self, log: str, base_url: str) -> None:
        self._log_name = hashlib.sha256(log.encode()).hexdigest()[:8]
        self._base_url = base_url.rstrip("/")

    def encode_rows(
        self,
        lines: bytes,
        after: Place,
        webhooks: Sequence[Webhook],
        now_ms: int,
        times_ms: tuple[int, int] | None = None,
    ) -> Iterator[NewDelivery]:
        """The rows for the events after a place, of `times_ms` if that is given."""
        events: list[PublicEvent] = _decode_lines(lines)
        first = events[0]
        concerned = [
            webhook
            for webhook in webhooks
            if webhook.filter.matches_job_set(first.queue, first.job_set)
        ]
        if not concerned:
            return
        for event in events:
            if parse_id(event.id) > after:
                yield from self._encode_event_rows(event, concerned, now_ms, times_ms)

    def _encode_event_rows(
        self,
        event: PublicEvent,
        webhooks: Iterable[Webhook],
        now_ms: int,
        times_ms: tuple[int, int] | None,
    ) -> Iterator[NewDelivery]:
        matching = [each for each in webhooks if each.filter.matches_type(event.type)]
        if not matching:
            return
        event_ms = timestamps.parse_rfc3339(event.time)
        if times_ms is not None and not times_ms[0] <= event_ms < times_ms[1]:
            return
        message_id = make_message_id(self._log_name, event.id)
        bodies: dict[str | int, str] = {}
        for webhook in matching:
            key = find_body_key(webhook)
            body = bodies.get(key)
            if body is None:
                body = make_body(event, message_id, webhook, self._base_url).decode()
                bodies[key] = body
            yield NewDelivery(
                day=find_day(now_ms),
                webhook=webhook.number,
                message_id=message_id,
                type=event.type,
                queue=event.queue,
                job_set=event.job_set,
                job_id=event.job_id,
                chain=f"{event.queue}/{event.job_set}" if webhook.ordered else None,
                event_ms=event_ms,
                created_ms=now_ms,
                state="PENDING",
                due_ms=now_ms,
                body=body,
                content_type=CONTENT_TYPES[webhook.format],
            )
