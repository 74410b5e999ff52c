"""Continuous reads, which resume after a failure: events of job sets and groups, logs of runs."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from fairlead import errors
from fairlead.asynchronous.job_query_methods import JobQueryMethods
from fairlead.calls import event_messages, group_requests, request_building
from fairlead.calls.exchange_types import Request, Unreachable
from fairlead.models.group_models import GroupDetail
from fairlead.models.job_models import Event

REOPEN_S: Final = 1.0


class EventStreamMethods(JobQueryMethods):
    """The methods that follow events and logs."""

    def events(
        self,
        queue: str,
        job_set: str | None = None,
        *,
        since: str | None = None,
        until_finished: bool = False,
    ) -> AsyncIterator[Event]:
        """Iterates over the events of a job set, or of a whole queue.

        It begins with the oldest event that the server retains, or after the event `since`. A
        broken connection is opened again, and no event is missed or repeated. With `until_finished`
        the iteration ends when all jobs of the job set have ended, otherwise when the caller stops.
        """
        after = None if job_set is None else self._positions.position(queue, job_set)
        return self._follow_events(
            lambda last: event_messages.build_event_request(
                queue, job_set, last=last, after=after, until_finished=until_finished
            ),
            since,
            (queue, job_set) if job_set is not None and until_finished else None,
        )

    def group_events(
        self, group_id: str, *, since: str | None = None, until_finished: bool = False
    ) -> AsyncIterator[Event]:
        """Iterates over the events of a group, without events of its members, as `events` does.

        With `until_finished` the iteration ends when the group has ended. Raises `NotFound`.
        """
        after = self._positions.position()
        return self._follow_events(
            lambda last: event_messages.build_group_event_request(
                group_id, last=last, after=after, until_finished=until_finished
            ),
            since,
            group_id if until_finished else None,
        )

    async def _follow_events(
        self,
        build: Callable[[str | None], Request],
        since: str | None,
        until: tuple[str, str] | str | None,
    ) -> AsyncIterator[Event]:
        """The events of streams that begin after each other; `build` takes the last event's id.

        `until`: a job set (queue, name), or the id of a group; its end ends the iteration.
        """
        last = since
        while True:
            parser = event_messages.Parser()
            async with self._stream(build(last)) as body:
                while True:
                    try:
                        chunk = await body.chunk()
                    except Unreachable:
                        break
                    if not chunk:
                        break
                    for message in parser.feed(chunk):
                        last = message.id or last
                        yield event_messages.decode_event(message)
            if until is not None and await self._has_ended(until):
                return
            await self._transport.sleep(REOPEN_S)

    async def _has_ended(self, until: tuple[str, str] | str) -> bool:
        if isinstance(until, tuple):
            return (await self.job_set(*until)).is_finished
        request = request_building.build_get(group_requests.group_path(until))
        return (await self._request(request, GroupDetail)).ended is not None

    async def logs(
        self,
        job_id: str,
        *,
        follow: bool = False,
        stream: str = "stdout",
        run: int | None = None,
        tail: int | None = None,
        since: str | None = None,
        container: str | None = None,
        after: str | None = None,
    ) -> AsyncIterator[bytes]:
        """Iterates over the bytes of a run's log (of the newest run, unless `run` says which).

        `stream` is `stdout` or `stderr`; `tail` requests the last lines only. `since`, for runs on
        Kubernetes, requests the lines written since then: a duration before now (`10m`, `2h`) or a
        time in RFC 3339. With `follow` it waits until a run exists and continues until it has
        ended; after a broken connection it resumes at the same byte, without `tail` and `since`.
        """
        after = after or self._positions.position()
        if follow:
            run = await self._wait_for_run(job_id, run, after)
        received = 0
        while True:
            request = request_building.build_log_request(
                job_id,
                stream=stream,
                follow=follow,
                after=after,
                run=run,
                container=container,
                tail=None if received else tail,
                since=since,
                received=received,
            )
            async with self._stream(request) as body:
                try:
                    while chunk := await body.chunk():
                        received += len(chunk)
                        yield chunk
                    return
                except Unreachable as error:
                    if tail is not None or since is not None:
                        raise errors.ServerUnreachable(
                            f"The log was interrupted: {error.reason}"
                        ) from None
            await self._transport.sleep(REOPEN_S)

    async def _wait_for_run(self, job_id: str, run: int | None, after: str | None) -> int | None:
        """Wait until a run can have a log; its number, so that later requests read the same run.

        None if the job ended without a run: the server then answers with the reason.
        """
        async for found in self.watch_job(job_id, after=after):
            if found.may_have_log(run):
                return run if run is not None or found.newest is None else found.newest.run
        raise AssertionError("a watch ends with a job that has ended")
