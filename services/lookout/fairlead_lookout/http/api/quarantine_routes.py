"""The route of the quarantine: records of the log that a service could not decode."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from fairlead_common.domain import timestamps
from fairlead_common.log.quarantine import QuarantinedRecord
from fairlead_common.web import auth
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.http.responses.response_base import ResponseBody
from fairlead_lookout.store.topic_caches import is_stopped

RECORDS_MAX = 1_000


class QuarantineReader(ResponseBody, frozen=True, kw_only=True):
    """What one service did with the record. `stopped`: it has stopped there until a newer version
    runs."""

    reader: str
    outcome: str
    stopped: bool = False
    reason: str
    seen: str


class QuarantineRecord(ResponseBody, frozen=True, kw_only=True):
    """A record that could not be decoded. `time`: when it was appended.

    `key` and `head` are the starts of its key and value, with escapes where they are not text;
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


class QuarantineResponse(ResponseBody, frozen=True, kw_only=True):
    """The newest records first; `total`: the number of all records."""

    records: list[QuarantineRecord]
    total: int


def add_routes(router: APIRouter, deps: Deps) -> None:
    """The quarantine, for operators: the records can belong to jobs of all queues."""

    async def require_operator(request: Request) -> None:
        auth.require_role(await deps.visibility.find_caller(request), "operator")

    @router.get(
        "/quarantine",
        summary="Records of the log that could not be decoded",
        dependencies=[Depends(require_operator)],
        responses=document_responses(QuarantineResponse, "The newest records first.", 400),
    )
    async def list_quarantine(
        limit: Annotated[int, Query(ge=1, le=RECORDS_MAX)] = 100,
    ) -> Response:
        found = deps.quarantine.read_all()
        records = [_describe_record(reported) for reported in found[:limit]]
        return json_response(QuarantineResponse(records=records, total=len(found)))


def _describe_record(reported: list[QuarantinedRecord]) -> QuarantineRecord:
    first = reported[0]
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
            for each in reported
        ],
    )
