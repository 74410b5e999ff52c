"""Lists of jobs, counts and groups: from counters where they know, else bounded looks at rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_common.service import clock
from fairlead_lookout.http import responses
from fairlead_lookout.http.list_filters import LABEL, JobFilter, refusal
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.queries.list_statements import Scope, statement
from fairlead_lookout.store.queries.view_reader import View

BRANCHES_MAX: Final = 20_000
SCAN_ROWS: Final = 10_000
"""Jobs that a page with filters looks at, at most; what follows is for the next page."""
SORT_ROWS: Final = 10_000
"""A list can be sorted by anything but the submission while it is no longer than this."""
GROUP_ROWS: Final = 100_000
BRANCH_ROWS_MIN: Final = 10
COUNT_MAX: Final = 10_000
COUNTERS_MAX: Final = 100_000
SORTS: Final = ("submitted", "changed", "started", "ended", "priority")
_KEYS: Final = {"queue": "queue", "jobSet": "job_set", "class": "class", "state": "state"}
_COLUMNS: Final = {**_KEYS, "cluster": "cluster", "node": "node"}


class Branches(msgspec.Struct, frozen=True):
    """The queues (or job sets) and states that a filter reaches, how many jobs each has, and how
    many of these are of the wanted classes."""

    scope: Scope
    keys: list[Any]
    states: list[str]
    jobs: list[int]
    wanted: list[int]

    def shares(self, rows: int) -> list[int]:
        """How many jobs of each branch to visit, about `rows` in all: in proportion to how many it
        has, so that all branches are visited about as far back."""
        total = sum(self.jobs)
        if total <= rows:
            return [size + 1 for size in self.jobs]
        return [max(BRANCH_ROWS_MIN, -(-size * rows // total)) for size in self.jobs]


NONE: Final = Branches("queue", [], [], [], [])


def check_sort(sort: str) -> None:
    """Raises `ValueError` for what no list is sorted by."""
    if sort.removeprefix("-") not in SORTS:
        both = ", ".join(f"{each}, -{each}" for each in SORTS)
        raise ValueError(f"{sort[:40]!r} is none of {both}.")


class Page(msgspec.Struct, frozen=True):
    """Ids in order, and where the next page begins: (number or key, id)."""

    ids: list[str]
    end: tuple[int, str] | None


class Lists:
    """Reads lists. Raises `DatabaseUnavailable`, and a `Problem` for what cannot be had.

    `costly`: the view for statements that look at many rows; fewer of them run at a time.
    """

    def __init__(self, view: View, costly: View | None = None) -> None:
        self._view = view
        self._costly = costly or view

    async def page(
        self, wanted: JobFilter, limit: int, cursor: str | None, sort: str = "-submitted"
    ) -> tuple[list[responses.JobShown], str | None]:
        """A page of jobs and the cursor of the next; it may be shorter where a filter finds few
        among many."""
        query = ["jobs", sort, *wanted.key()]
        place = list_cursors.decode(query, cursor) or (None, None)
        name, newest = sort.removeprefix("-"), sort.startswith("-")
        branches = await self._branches(wanted)
        if not branches.keys:
            return [], None
        if name == "submitted":
            found = await self._page(branches, wanted, place, limit, newest=newest)
        else:
            found = await self._sorted(branches, wanted, place, limit, name, newest=newest)
        following = None if found.end is None else list_cursors.encode(query, *found.end)
        return await self._show(found.ids), following

    async def _branches(self, wanted: JobFilter) -> Branches:
        scope: Scope = "queue" if wanted.job_set is None else "set"
        rows = await self._view.fetch(
            f"branches_of_{scope}s",
            *wanted.reach.arguments(),
            wanted.queue,
            wanted.job_set,
            list(wanted.states),
            list(wanted.classes),
            BRANCHES_MAX + 1,
        )
        if len(rows) > BRANCHES_MAX:
            raise refusal("queue", "There are too many queues to look into at once: name one.")
        return Branches(scope, *(list(each) for each in zip(*rows, strict=True))) if rows else NONE

    def _visited(
        self,
        branches: Branches,
        wanted: JobFilter,
        place: tuple[int | None, str | None],
        most: tuple[int, list[int]],
    ) -> tuple[object, ...]:
        """What the pieces `visited` and `matching` of the statements take."""
        return (
            branches.keys,
            branches.states,
            wanted.number_min(),
            wanted.submitted_after_ms,
            *place,
            *most,
            *wanted.arguments(),
        )

    async def _page(
        self,
        branches: Branches,
        wanted: JobFilter,
        place: tuple[int | None, str | None],
        limit: int,
        *,
        newest: bool,
    ) -> Page:
        found: list[tuple[int, str]] = []
        horizon = None
        view = self._costly if wanted.leaves_out else self._view
        for most in _tries(branches, wanted, limit):
            rows = await view.ask(
                statement("page", branches.scope, newest=newest, narrow=_is_narrow(wanted)),
                *self._visited(branches, wanted, place, most),
                limit + 1,
            )
            found = [(row["number"], row["id"]) for row in rows if row["id"] is not None]
            if len(found) > limit:
                return Page([id_ for _, id_ in found[:limit]], found[limit - 1])
            horizon = (rows[0]["horizon_number"], rows[0]["horizon_id"])
            if horizon[1] is None:
                return Page([id_ for _, id_ in found], None)
        return Page([id_ for _, id_ in found], horizon)

    async def _sorted(
        self,
        branches: Branches,
        wanted: JobFilter,
        place: tuple[int | None, str | None],
        limit: int,
        name: str,
        *,
        newest: bool,
    ) -> Page:
        most = (len(branches.keys) + 1, [SORT_ROWS + 1] * len(branches.keys))
        if sum(branches.jobs) > SORT_ROWS and wanted.submitted_after_ms is None:
            raise _too_many_to_sort(name)
        rows = await self._costly.ask(
            statement("sorted_page", branches.scope, newest=newest),
            *self._visited(branches, wanted, (None, None), most),
            limit + 1,
            name,
            *place,
        )
        if rows[0]["cut"]:
            raise _too_many_to_sort(name)
        found = [(row["key"], row["id"]) for row in rows if row["id"] is not None]
        end = found[limit - 1] if len(found) > limit else None
        return Page([id_ for _, id_ in found[:limit]], end)

    async def _show(self, ids: Sequence[str]) -> list[responses.JobShown]:
        if not ids:
            return []
        rows = {row["id"]: row for row in await self._view.fetch("jobs_by_id", list(ids))}
        waiting = await self._view.waiting_for_others(list(rows.values()))
        client_ids = await self._view.client_ids(list(rows.values()))
        now_ms = clock.now_ms()
        return [
            responses.job(rows[job_id], now_ms, job_id in waiting, client_ids)
            for job_id in ids
            if job_id in rows
        ]

    async def count(self, wanted: JobFilter) -> str:
        """How many jobs there are, up to `COUNT_MAX`."""
        branches = await self._branches(wanted)
        if wanted.is_counted:
            total = sum(branches.wanted)
            return str(total) if total <= COUNT_MAX else f"{COUNT_MAX}+"
        if not branches.keys:
            return "0"
        most = (len(branches.keys) + 1, branches.shares(GROUP_ROWS))
        (row,) = await self._costly.ask(
            statement("count_visited", branches.scope, narrow=_is_narrow(wanted)),
            *self._visited(branches, wanted, (None, None), most),
            COUNT_MAX + 1,
        )
        if row["jobs"] > COUNT_MAX:
            return f"{COUNT_MAX}+"
        return f"{row['jobs']}{'+' if row['cut'] else ''}"

    async def groups(
        self, wanted: JobFilter, by: Sequence[str], limit: int
    ) -> responses.GroupsShown:
        """Counts per group, greatest first."""
        if set(by) <= _KEYS.keys() and wanted.is_counted:
            return await self._counted_groups(wanted, by, limit)
        branches = await self._branches(wanted)
        if not branches.keys:
            return responses.GroupsShown(groups=[], total="0")
        rows = await self._costly.ask(
            statement("group_visited", branches.scope, narrow=_is_narrow(wanted, by)),
            branches.keys,
            branches.states,
            wanted.number_min(),
            wanted.submitted_after_ms,
            limit,
            [name for name in by if not name.startswith(LABEL)],
            [name.removeprefix(LABEL) for name in by if name.startswith(LABEL)],
            branches.shares(GROUP_ROWS),
            *wanted.arguments(),
        )
        groups = [responses.GroupShown(group=_group(row, by), jobs=row["jobs"]) for row in rows]
        total = int(rows[0]["total"]) if rows else 0
        cut = bool(rows) and rows[0]["cut"]
        return responses.GroupsShown(groups=groups, total=f"{total}{'+' if cut else ''}")

    async def _counted_groups(
        self, wanted: JobFilter, by: Sequence[str], limit: int
    ) -> responses.GroupsShown:
        """From the counters alone."""
        arguments = (
            *wanted.reach.arguments(),
            wanted.queue,
            list(wanted.states),
            list(wanted.classes),
        )
        if wanted.job_set is None and "jobSet" not in by:
            rows = await self._view.fetch("queue_counts", *arguments, COUNTERS_MAX)
        else:
            rows = await self._view.fetch("set_counts", *arguments, wanted.job_set, COUNTERS_MAX)
        totals: dict[tuple[str, ...], int] = {}
        for row in rows:
            key = tuple(row[_KEYS[name]] for name in by)
            totals[key] = totals.get(key, 0) + row["jobs"]
        ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:limit]
        return responses.GroupsShown(
            groups=[
                responses.GroupShown(group=dict(zip(by, key, strict=True)), jobs=jobs)
                for key, jobs in ordered
            ],
            total=f"{sum(totals.values())}{'+' if len(rows) >= COUNTERS_MAX else ''}",
        )


def _is_narrow(wanted: JobFilter, by: Sequence[str] = ()) -> bool:
    """Whether the indexes of branches have all that these filters and groups look at."""
    columns = (wanted.category, wanted.cluster, wanted.node, wanted.q, wanted.submitted_after_ms)
    has_key = "queue" if wanted.job_set is None else "jobSet"
    return (
        not wanted.classes
        and all(value is None for value in columns)
        and all(name in (has_key, "state") or name.startswith(LABEL) for name in by)
    )


def _tries(branches: Branches, wanted: JobFilter, limit: int) -> list[tuple[int, list[int]]]:
    """(most branches, most jobs of each) to visit: few at first, which is often enough."""
    many = len(branches.keys)
    if wanted.leaves_out:
        return [(many + 1, branches.shares(rows)) for rows in (SCAN_ROWS // 8, SCAN_ROWS)]
    # So many jobs of so many of the newest branches hold a whole page for certain.
    whole = (limit + 1, [limit + 1] * many)
    few = [min(each, limit + 1) for each in branches.shares(4 * limit)]
    return [whole] if many <= 2 else [(limit + 1, few), whole]


def _group(row: Mapping[str, Any], by: Sequence[str]) -> dict[str, str | None]:
    labels = iter((row["label_1"], row["label_2"], row["label_3"]))
    return {name: next(labels) if name.startswith(LABEL) else row[_COLUMNS[name]] for name in by}


def _too_many_to_sort(name: str) -> Exception:
    return refusal(
        "sort",
        f"More than {SORT_ROWS} jobs would have to be sorted by {name}: narrow the filter, or sort"
        " by submitted.",
    )
