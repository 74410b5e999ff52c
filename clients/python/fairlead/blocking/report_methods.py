# Generated from fairlead/asynchronous/report_methods.py (`make client`).
"""Queries for reports, and exports of whole lists."""

from collections.abc import Iterator, Mapping

from fairlead import errors
from fairlead.blocking.client_connection import Connection
from fairlead.calls import job_parameters, request_building
from fairlead.calls.exchange_types import Unreachable
from fairlead.calls.job_parameters import Format
from fairlead.models.job_models import Filter
from fairlead.models.report_models import Fairness, PoolReport, QueueReport, Round, Rounds


class ReportMethods(Connection):
    """The methods that read reports and export lists."""

    def queue_report(self, queue: str) -> QueueReport:
        """A queue's shares and limits, and why its jobs wait."""
        path = f"/queues/{request_building.escape_segment(queue)}/report"
        return self._request(request_building.build_get(path), QueueReport)

    def pool_report(self, pool: str) -> PoolReport:
        """A pool's last round, the allocations of its queues, and why jobs wait."""
        path = f"/pools/{request_building.escape_segment(pool)}/report"
        return self._request(request_building.build_get(path), PoolReport)

    def rounds(self, pool: str, *, limit: int = 100) -> tuple[Round, ...]:
        """The last rounds of a pool, newest first, at most 1,000."""
        path = f"/pools/{request_building.escape_segment(pool)}/rounds"
        request = request_building.build_get(path, (("limit", str(limit)),))
        return (self._request(request, Rounds)).rounds

    def fairness(
        self, queue: str, *, since: str | None = None, until: str | None = None
    ) -> Fairness:
        """A queue's share over time, and the resource-hours it used and lost; times as RFC 3339."""
        query = request_building.make_query({"queue": queue, "from": since, "to": until})
        return self._request(request_building.build_get("/fairness", query), Fairness)

    def export_jobs(
        self,
        where: Filter | None = None,
        *,
        category: str | None = None,
        annotations: Mapping[str, str] | None = None,
        submitted_after: str | None = None,
        q: str | None = None,
        sort: str | None = None,
        after: str | None = None,
        format: Format = "csv",
        submission: bool = False,
    ) -> Iterator[bytes]:
        """Iterates over the bytes of a table of all jobs that `iter_jobs` would return.

        With `submission` a line also has the fields that decide where and when the job runs.
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
        if submission:
            query.append(("include", "submission"))
        return self._stream_export("/jobs/export.csv", query, format)

    def export_job_sets(
        self,
        *,
        queue: str | None = None,
        active: bool | None = None,
        q: str | None = None,
        after: str | None = None,
        format: Format = "csv",
    ) -> Iterator[bytes]:
        """Iterates over the bytes of a table of all job sets that `job_sets` would return."""
        query = job_parameters.job_set_query(
            queue=queue, active=active, q=q, after=after or self._positions.position()
        )
        return self._stream_export("/jobsets/export.csv", query, format)

    def _stream_export(
        self, path: str, query: request_building.Query, format: Format
    ) -> Iterator[bytes]:
        """The bytes of a table. Raises `ServerUnreachable`: an export cannot be resumed."""
        request = request_building.build_get(path, (*query, ("format", format)))
        with self._stream(request) as body:
            try:
                while chunk := body.chunk():
                    yield chunk
            except Unreachable as error:
                raise errors.ServerUnreachable(
                    f"The export was interrupted: {error.reason}"
                ) from None
