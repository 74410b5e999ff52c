"""Continuous reads: the events of a job set, and the log of a run. They resume after a failure."""

from typing import Final

import msgspec

from fairlead import errors
from fairlead.calls import call_effects, job_queries, request_building
from fairlead.calls.call_effects import Flow, Request, Unreachable
from fairlead.models.job_models import Event, JobDetail
from fairlead.transport import server_sent_events

SILENCE_S_MAX: Final = 60.0
"""The server writes a comment at least every 15 s; longer silence means a dead connection."""

REOPEN_S: Final = 1.0


def events(
    queue: str,
    job_set: str | None = None,
    *,
    since: str | None = None,
    until_finished: bool = False,
) -> Flow[None]:
    """Iterates over the events of a job set, or of a whole queue.

    It begins with the oldest event that the server retains, or after the event `since`. A broken
    connection is opened again, and no event is missed or repeated. With `until_finished` the
    iteration ends when all jobs of the job set have ended, otherwise when the caller stops.
    """
    if job_set is None:
        path, query = "/events", [("queue", queue)]
    else:
        path = f"{request_building.job_set_path(queue, job_set)}/events"
        query = [*request_building.seen((yield from call_effects.written((queue, job_set))), None)]
        if until_finished:
            query.append(("until", "finished"))
    last = since
    while True:
        headers = [("accept", "text/event-stream")]
        if last is not None:
            headers.append(("last-event-id", last))
        request = Request(
            path=request_building.API + path,
            query=tuple(query),
            headers=tuple(headers),
            read_s=SILENCE_S_MAX,
        )
        yield from request_building.opened(request)
        last = yield from _messages(last)
        if job_set is not None and until_finished:
            found = yield from job_queries.job_set(queue, job_set)
            if found.is_finished:
                return
        yield from call_effects.pause(REOPEN_S)


def _messages(last: str | None) -> Flow[str | None]:
    """Emit the events of the open stream; returns the id of the last one."""
    parser = server_sent_events.Parser()
    while True:
        answer = yield from call_effects.more()
        if isinstance(answer, Unreachable) or not answer.data:
            return last
        try:
            for message in parser.feed(answer.data):
                last = message.id or last
                yield from call_effects.emit(_event(message))
        except server_sent_events.TooLong as error:
            raise errors.UnexpectedAnswer("A line of the event stream is too long.") from error


def _event(message: server_sent_events.Message) -> Event:
    if message.event == "reset":
        return Event(type="reset", id=message.id)
    event = request_building.decode(message.data.encode(), Event)
    return msgspec.structs.replace(event, id=message.id or event.id)


def logs(
    job_id: str,
    *,
    follow: bool = False,
    stream: str = "stdout",
    run: int | None = None,
    tail: int | None = None,
    container: str | None = None,
    after: str | None = None,
) -> Flow[None]:
    """Iterates over the bytes of a run's log (of the newest run, unless `run` says which).

    `stream` is `stdout` or `stderr`; `tail` requests the last lines only. With `follow` it waits
    until a run exists and continues until it has ended; after a broken connection it resumes at
    the same byte.
    """
    after = after or (yield from call_effects.written())
    if follow:
        run = yield from _wait_for_run(job_id, run, after)
    path = f"{request_building.API}/jobs/{request_building.part(job_id)}/logs"
    received = 0
    while True:
        query = [("stream", stream), ("follow", "true" if follow else "false")]
        query += request_building.seen(after, None)
        if run is not None:
            query.append(("run", str(run)))
        if container is not None:
            query.append(("container", container))
        if tail is not None and not received:
            query.append(("tail", str(tail)))
        if received:
            query.append(("sinceBytes", str(received)))
        yield from request_building.opened(Request(path=path, query=tuple(query), read_s=None))
        while True:
            answer = yield from call_effects.more()
            if isinstance(answer, Unreachable):
                break
            if not answer.data:
                return
            received += len(answer.data)
            yield from call_effects.emit(answer.data)
        if tail is not None:
            raise errors.ServerUnreachable(f"The log was interrupted: {answer.reason}")
        yield from call_effects.pause(REOPEN_S)


def _wait_for_run(job_id: str, run: int | None, after: str | None) -> Flow[int | None]:
    """Wait until a run can have a log; its number, so that later requests read the same run.

    None if the job ended without a run: the server then answers with the reason.
    """

    def has_log(found: object) -> bool:
        return isinstance(found, JobDetail) and found.may_have_log(run)

    found = yield from call_effects.first(job_queries.watch_job(job_id, after=after), has_log)
    assert isinstance(found, JobDetail), "a watch ends with a job that has ended"
    return run if run is not None or found.newest is None else found.newest.run
