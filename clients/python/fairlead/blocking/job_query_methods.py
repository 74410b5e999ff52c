# Generated from fairlead/asynchronous/job_query_methods.py (`make client`).
"""Queries for jobs and job sets, and waiting for them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairlead import errors
from fairlead.blocking.client_connection import Connection
from fairlead.calls import job_parameters, request_building
from fairlead.calls.job_parameters import POSITION_WAIT_S
from fairlead.models.job_models import (
    Filter,
    Group,
    Groups,
    JobDetail,
    JobSet,
    JobView,
    require_list,
)

LONG_POLL_S: Final = 30.0
POLL_S: Final = 0.5
GROUPS_MAX: Final = 1_000


class JobQueryMethods(Connection):
    """The methods that read jobs and job sets, and wait for them."""

    def job_set(
        self, queue: str, name: str, *, after: str | None = None, wait_s: float = POSITION_WAIT_S
    ) -> JobSet:
        """One job set that includes the position `after`, for which the server waits up to
        `wait_s`.

        The default is the position of this client's last submission to the job set.
        """
        query = request_building.make_position_query(
            after or self._positions.position(queue, name), wait_s
        )
        path = request_building.job_set_path(queue, name)
        return self._request(request_building.build_get(path, query), JobSet)

    def job_sets(
        self,
        *,
        queue: str | None = None,
        active: bool | None = None,
        q: str | None = None,
        after: str | None = None,
    ) -> Iterator[JobSet]:
        """Iterates over job sets, newest first."""
        query = job_parameters.job_set_query(
            queue=queue, active=active, q=q, after=after or self._positions.position()
        )
        return self._iterate_pages("/jobsets", query, "jobSets", JobSet)

    def job(
        self,
        job_id: str,
        *,
        spec: bool = False,
        after: str | None = None,
        wait_s: float = POSITION_WAIT_S,
    ) -> JobDetail:
        """One job with its runs and, with `spec`, its submission."""
        seen = request_building.make_position_query(after or self._positions.position(), wait_s)
        query = (*seen, *((("spec", "true"),) if spec else ()))
        path = f"/jobs/{request_building.escape_segment(job_id)}"
        return self._request(request_building.build_get(path, query), JobDetail)

    def iter_jobs(
        self,
        where: Filter | None = None,
        *,
        category: str | None = None,
        annotations: Mapping[str, str] | None = None,
        submitted_after: str | None = None,
        q: str | None = None,
        sort: str | None = None,
        after: str | None = None,
    ) -> Iterator[JobView]:
        """Iterates over the jobs that match all filters, newest first.

        `category` is that of a failure, `q` a part of a client id, job set or id; `sort` is one of
        submitted, changed, started, ended, priority, with a minus for the greatest first.
        """
        query = job_parameters.job_query(
            where,
            category=category,
            annotations=annotations,
            submitted_after=submitted_after,
            q=q,
            sort=sort,
            after=after or self._find_position(where),
        )
        return self._iterate_pages("/jobs", query, "jobs", JobView)

    def count_jobs(
        self, by: Sequence[str], where: Filter | None = None, *, after: str | None = None
    ) -> tuple[Group, ...]:
        """The number of jobs by queue, jobSet, state, class, cluster, node or `label.NAME`."""
        query = [
            *job_parameters.filter_query(where),
            ("groupBy", ",".join(by)),
            ("limit", str(GROUPS_MAX)),
            *request_building.make_position_query(
                after or self._find_position(where), POSITION_WAIT_S
            ),
        ]
        return (self._request(request_building.build_get("/jobs", query), Groups)).groups

    def wait(
        self,
        queue: str,
        job_set: str,
        *,
        timeout_s: float | None = None,
        after: str | None = None,
    ) -> JobSet:
        """Wait until every job of the job set has ended. Raises `WaitTimeout`.

        `after`: a position to include; the default is that of this client's last submission to it.
        """
        after = after or self._positions.position(queue, job_set)
        started_s = self._transport.now_s()
        path = request_building.job_set_path(queue, job_set)
        while True:
            now_s = self._transport.now_s()
            left_s = LONG_POLL_S if timeout_s is None else started_s + timeout_s - now_s
            wait_s = max(0.0, min(LONG_POLL_S, left_s))
            reply = self._fetch_reply(request_building.build_finish_poll(path, wait_s, after))
            if reply.status != 304:
                found = request_building.decode_reply(reply, JobSet)
                if found.is_finished:
                    return found
            if left_s <= 0:
                raise errors.WaitTimeout(
                    f"Not all jobs of {queue}/{job_set} ended within {timeout_s:g} s."
                )
            if self._transport.now_s() - now_s < POLL_S:
                self._transport.sleep(POLL_S)

    def watch(self, queue: str, job_set: str, *, after: str | None = None) -> Iterator[JobSet]:
        """Iterates over the states of a job set, one for each change, until all jobs have ended."""
        after = after or self._positions.position(queue, job_set)
        path = request_building.job_set_path(queue, job_set)
        etag: str | None = None
        while True:
            reply = self._fetch_reply(
                request_building.build_change_poll(path, etag, LONG_POLL_S, after)
            )
            if reply.status != 304:
                found = request_building.decode_reply(reply, JobSet)
                yield found
                if found.is_finished:
                    return
                etag = reply.headers.get("etag")
            self._transport.sleep(POLL_S)

    def watch_job(self, job_id: str, *, after: str | None = None) -> Iterator[JobDetail]:
        """Iterates over the states of one job, one for each change, until it has ended."""
        after = after or self._positions.position()
        path = f"/jobs/{request_building.escape_segment(job_id)}"
        etag: str | None = None
        while True:
            reply = self._fetch_reply(
                request_building.build_change_poll(path, etag, LONG_POLL_S, after)
            )
            if reply.status != 304:
                found = request_building.decode_reply(reply, JobDetail)
                yield found
                if found.has_ended:
                    return
                etag = reply.headers.get("etag")
            self._transport.sleep(POLL_S)

    def wait_job(
        self, job_id: str, *, timeout_s: float | None = None, after: str | None = None
    ) -> JobDetail:
        """Wait until one job has ended. Raises `WaitTimeout`."""
        after = after or self._positions.position()
        started_s = self._transport.now_s()
        path = f"/jobs/{request_building.escape_segment(job_id)}"
        etag: str | None = None
        while True:
            now_s = self._transport.now_s()
            left_s = LONG_POLL_S if timeout_s is None else started_s + timeout_s - now_s
            wait_s = max(0.0, min(LONG_POLL_S, left_s))
            reply = self._fetch_reply(request_building.build_change_poll(path, etag, wait_s, after))
            if reply.status != 304:
                found = request_building.decode_reply(reply, JobDetail)
                if found.has_ended:
                    return found
                etag = reply.headers.get("etag")
            if left_s <= 0:
                raise _wait_timeout(job_id, timeout_s)
            if self._transport.now_s() - now_s < POLL_S:
                self._transport.sleep(POLL_S)

    def wait_jobs(
        self, ids: Sequence[str], *, timeout_s: float | None = None, after: str | None = None
    ) -> tuple[JobDetail, ...]:
        """Wait until all of these jobs have ended; returns them in order. Raises `WaitTimeout`."""
        require_list("ids", ids)
        started_s = self._transport.now_s()
        ended = []
        for job_id in ids:
            left_s = timeout_s
            if timeout_s is not None:
                left_s = max(0.0, started_s + timeout_s - self._transport.now_s())
            try:
                ended.append(self.wait_job(job_id, timeout_s=left_s, after=after))
            except errors.WaitTimeout:
                raise _wait_timeout(job_id, timeout_s) from None
        return tuple(ended)


def _wait_timeout(job_id: str, timeout_s: float | None) -> errors.WaitTimeout:
    return errors.WaitTimeout(f"Job {job_id} did not end within {timeout_s:g} s.")
