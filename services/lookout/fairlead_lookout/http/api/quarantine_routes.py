"""Route of the quarantine: records of the log that a service could not decode."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from fairlead_common.domain import timestamps
from fairlead_common.log.quarantine import QuarantinedRecord
from fairlead_common.web import auth
from fairlead_lookout.http.deps import Parts
from fairlead_lookout.http.long_polls import answer
from fairlead_lookout.http.openapi import answers
from fairlead_lookout.http.responses import Shown
from fairlead_lookout.store.quarantine_cache import is_stopped

RECORDS_MAX = 1_000


class QuarantineReader(Shown, frozen=True, kw_only=True):
    """What one service did at the record. `stopped`: it still waits there for a newer version."""

    reader: str
    outcome: str
    stopped: bool = False
    reason: str
    seen: str


class QuarantineRecord(Shown, frozen=True, kw_only=True):
    """A record that could not be decoded. `time`: when the log took it.

    `key` and `head` are the beginnings of its key and value, with escapes where they are not text;
    `size` is the length of its value in bytes, absent if it has none.
    """

    topic: str
    partition: int
    position: int
    time: str
    key: str
    head: str = ""
    size: int | None = None
    readers: list[QuarantineReader]


class QuarantineShown(Shown, frozen=True, kw_only=True):
    """The newest of them first; `total` counts all that are known."""

    records: list[QuarantineRecord]
    total: int


def add_routes(router: APIRouter, parts: Parts) -> None:
    """The quarantine, for operators: the records may be about anybody's jobs."""

    async def operator(request: Request) -> None:
        auth.require_role(await parts.sight.caller(request), "operator")

    @router.get(
        "/quarantine",
        summary="Records of the log that could not be decoded",
        dependencies=[Depends(operator)],
        responses=answers(QuarantineShown, "The newest records first.", 400),
    )
    async def list_quarantine(
        limit: Annotated[int, Query(ge=1, le=RECORDS_MAX)] = 100,
    ) -> Response:
        found = parts.quarantine.records()
        shown = [_record(noted) for noted in found[:limit]]
        return answer(QuarantineShown(records=shown, total=len(found)))


def _record(noted: list[QuarantinedRecord]) -> QuarantineRecord:
    first = noted[0]
    return QuarantineRecord(
        topic=first.topic,
        partition=first.partition,
        position=first.position,
        time=timestamps.rfc3339(first.time_ms),
        key=first.key,
        head=first.head,
        size=first.size,
        readers=[
            QuarantineReader(
                reader=each.reader,
                outcome=each.outcome,
                stopped=is_stopped(each),
                reason=each.reason,
                seen=timestamps.rfc3339(each.seen_ms),
            )
            for each in noted
        ],
    )
