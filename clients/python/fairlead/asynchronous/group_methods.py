"""The methods for groups: distributed jobs of several roles."""

from collections.abc import AsyncIterator, Iterable, Mapping

from fairlead.asynchronous.client_connection import AsyncConnection
from fairlead.calls import group_requests, request_building
from fairlead.models.group_models import (
    Elastic,
    GroupActionResult,
    GroupChange,
    GroupDetail,
    GroupSpec,
    GroupSubmitResult,
    GroupView,
    RoleChange,
)
from fairlead.models.job_models import Job


class GroupMethods(AsyncConnection):
    """The methods for groups."""

    async def submit_groups(
        self, queue: str, job_set: str, groups: Iterable[GroupSpec | Mapping[str, object]]
    ) -> GroupSubmitResult:
        """Submit groups: all of them, or none. Groups without a client id get one, so that
        repeating the request creates no group twice.
        """
        name = f"g{self._transport.random_bits():016x}"
        request = group_requests.build_submission(queue, job_set, groups, name)
        done = await self._request(request, GroupSubmitResult)
        if done.position is not None:
            self._positions.record(queue, job_set, done.position)
        return done

    async def check_groups(
        self, queue: str, job_set: str, groups: Iterable[GroupSpec | Mapping[str, object]]
    ) -> GroupSubmitResult:
        """Validate groups on the server, and check whether the minimum of each role could ever
        run, without creating them.
        """
        request = group_requests.build_submission(queue, job_set, groups, "dry-run", dry_run=True)
        return await self._request(request, GroupSubmitResult)

    def groups(
        self,
        *,
        queue: str | None = None,
        job_set: str | None = None,
        client_id: str | None = None,
        state: str | None = None,
        after: str | None = None,
    ) -> AsyncIterator[GroupView]:
        """Iterates over groups, the newest first. `state`: one or several, separated by commas."""
        query = request_building.make_query(
            {"queue": queue, "jobSet": job_set, "clientId": client_id, "state": state}
        )
        query += self._make_position_query(after)
        return self._iterate_pages("/groups", query, "groups", GroupView)

    async def group(self, group_id: str, *, after: str | None = None) -> GroupDetail:
        """One group with its members. Raises `NotFound`."""
        query = self._make_position_query(after)
        request = request_building.build_get(group_requests.group_path(group_id), query)
        return await self._request(request, GroupDetail)

    async def cancel_group(self, group_id: str, *, reason: str = "") -> GroupActionResult:
        """Cancel all members of a group. Raises `NotFound`."""
        request = group_requests.build_cancellation(group_id, reason)
        return await self._request_change(request, GroupActionResult)

    async def restart_group(self, group_id: str, *, reason: str = "") -> GroupActionResult:
        """Stop all members of a group and start them again. Raises `Conflict` if it has ended."""
        request = group_requests.build_restart(group_id, reason)
        return await self._request_change(request, GroupActionResult)

    async def scale_group(
        self, group_id: str, roles: Mapping[str, tuple[int | None, int | None]]
    ) -> GroupActionResult:
        """Change the number of members of roles: their names with (min, max), None for what stays.

        Raises `Conflict` if the group has ended.
        """
        request = group_requests.build_scaling(group_id, roles)
        return await self._request_change(request, GroupActionResult)

    async def change_group(
        self,
        group_id: str,
        *,
        templates: Mapping[str, Job | Mapping[str, object]] | None = None,
        priority: int | None = None,
        freeze_seconds: int | None = None,
        step_max: int | None = None,
    ) -> GroupActionResult:
        """Change the priority of all members, how the group grows, or templates of roles by name.

        A different template re-creates the group: all members stop, and new ones are submitted.
        Raises `Conflict` if the group has ended.
        """
        roles = tuple(
            RoleChange(name=name, template=template) for name, template in (templates or {}).items()
        )
        elastic = None
        if freeze_seconds is not None or step_max is not None:
            elastic = Elastic(freeze_seconds=freeze_seconds, step_max=step_max)
        change = GroupChange(roles=roles or None, priority=priority, elastic=elastic)
        request = group_requests.build_change(group_id, change)
        return await self._request_change(request, GroupActionResult)
