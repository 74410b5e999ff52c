"""Lists of jobs, counts and groups: from counters where possible, else from some rows.

The statements are put together from the fragments in `read.sql`. A list is of whole queues or of
job sets, newest or oldest first: the same text with other names and comparisons.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from fairlead_common.db import to_columns
from fairlead_common.domain.lifecycle import JobState
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.queries.list_filters import (
    LABEL,
    NUMBER_MAX,
    JobFilter,
    invalid_parameter,
)
from fairlead_lookout.store.queries.view_reader import JobRows, ViewReader
from fairlead_lookout.store.view_schema import READ

BRANCHES_MAX: Final = 20_000
COMPARED_ROWS: Final = (2_500, 7_500)
"""Jobs that a page with filters examines: the newest ones, and if that is not enough the next ones.
The next page continues after them."""
SORT_ROWS: Final = 10_000
"""Longer lists can only be sorted by submission."""
GROUP_ROWS: Final = 100_000
BRANCH_ROWS_MIN: Final = 10
MERGED_ROWS: Final = 1_000
"""Jobs that a statement reads to merge a whole page of each of some branches."""
COUNT_MAX: Final = 10_000
COUNT_STEP: Final = 25_000
"""Jobs that are compared at once to count them: if most match, these are enough."""
COUNTERS_MAX: Final = 100_000
SORTS: Final = ("submitted", "changed", "started", "ended", "priority")
_KEYS: Final = {"queue": "queue", "jobSet": "job_set", "class": "class", "state": "state"}
_COLUMNS: Final = {**_KEYS, "cluster": "cluster", "node": "node"}


def _remove_comments(fragment: str) -> str:
    """A fragment without the comment above it."""
    return "\n".join(line for line in fragment.splitlines() if not line.startswith("--"))


Scope = Literal["queue", "set"]
Statement = Literal[
    "page", "compared_page", "merged_page", "sorted_page", "count_compared", "group_visited"
]
_SCOPES: Final = {
    "queue": {"{scope}": "queue", "{keys}": "text"},
    "set": {"{scope}": "set_number", "{keys}": "int"},
}
_TABLE_COLUMNS: Final = {
    (scope, narrow): {"{columns}": _remove_comments(READ[f"narrow_{scope}" if narrow else "whole"])}
    for scope in _SCOPES
    for narrow in (True, False)
}
_ORDERS: Final = {
    True: {
        "{down}": "DESC",
        "{after}": "<",
        "{reached}": ">=",
        "{since}": "true",
        "{end_number}": "$3",
        "{end_id}": "''",
    },
    False: {
        "{down}": "ASC",
        "{after}": ">",
        "{reached}": "<=",
        "{since}": "o.number >= $3",
        "{end_number}": str(NUMBER_MAX),
        "{end_id}": "'~'",
    },
}
_FRAGMENTS: Final = {
    f"{{{name}}}": _remove_comments(READ[name]) for name in ("visited", "compared", "matching")
} | {"{job_row}": _remove_comments(READ["job_row"]).replace("{week}", "wanted.week")}


def _fill(text: str, *names: dict[str, str]) -> str:
    for each in names:
        for name, value in each.items():
            text = text.replace(name, value)
    return text


_STATEMENTS: Final = {
    (name, scope, newest, narrow): _fill(
        READ[name], _FRAGMENTS, _TABLE_COLUMNS[scope, narrow], _SCOPES[scope], _ORDERS[newest]
    )
    for name in get_args(Statement)
    for scope in _SCOPES
    for newest in _ORDERS
    for narrow in (True, False)
}


def list_statement(
    name: Statement, scope: Scope, *, newest: bool = True, narrow: bool = False
) -> str:
    """The text of a list statement. `narrow`: the columns of an index are enough."""
    return _STATEMENTS[name, scope, newest, narrow]


class Branches(msgspec.Struct, frozen=True):
    """The queues (or job sets) and states that a filter reaches. `jobs`: the jobs of each branch;
    `wanted`: how many of them are of the wanted classes."""

    scope: Scope
    keys: list[Any]
    states: list[str]
    jobs: list[int]
    wanted: list[int]

    def rows_per_branch(self, rows: int) -> list[int]:
        """How many jobs of each branch to read, about `rows` in total: in proportion to its size,
        so that all branches are read about as far back."""
        total = sum(self.jobs)
        if total <= rows:
            return [size + 1 for size in self.jobs]
        return [max(BRANCH_ROWS_MIN, -(-size * rows // total)) for size in self.jobs]


_Place: TypeAlias = tuple[int | None, str | None]
"""A place in a list: number (or key) and id."""
_START: Final[_Place] = (None, None)
_NO_BRANCHES: Final = Branches("queue", [], [], [], [])


def check_sort(sort: str) -> None:
    """Raises `ValueError` for a sort order that lists do not have."""
    if sort.removeprefix("-") not in SORTS:
        both = ", ".join(f"{each}, -{each}" for each in SORTS)
        raise ValueError(f"{sort[:40]!r} is not a sort order. Use {both}.")


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs and the cursor of the next page. `count`: of a first page with a filter, how
    many of the examined jobs match, with a plus sign if there are more."""

    jobs: JobRows
    next: str | None
    count: str | None = None


class Groups(msgspec.Struct, frozen=True):
    """(group, jobs), greatest first. `total`: the jobs that were counted, with a plus sign when
    there are more than were examined."""

    groups: list[tuple[dict[str, str | None], int]]
    total: str


class _Part(msgspec.Struct, frozen=True):
    """Jobs in order, where the next page begins (number or key, id), the count of `JobPage`."""

    jobs: JobRows
    end: tuple[int, str] | None
    count: str | None = None


class JobLists:
    """Reads lists. Raises `DatabaseUnavailable`, and a `Problem` for a list that is too large.

    Branches and their jobs are read from one snapshot: a job that changes its state meanwhile is
    still on the page.

    `costly`: the reader for lists that read many rows; fewer of them are read at a time.
    """

    def __init__(self, view: ViewReader, costly: ViewReader | None = None) -> None:
        self._view = view
        self._costly = costly or view

    async def read_page(
        self,
        wanted: JobFilter,
        limit: int,
        cursor: str | None,
        sort: str = "-submitted",
        set_number: int | None = None,
    ) -> JobPage:
        """A page of jobs. It can be shorter than `limit` where a filter matches few of many.

        `set_number`: of the only job set of the filter, if it is known and exists.
        """
        query = ["jobs", sort, *wanted.cursor_key()]
        place = list_cursors.decode(query, cursor) or _START
        name, newest = sort.removeprefix("-"), sort.startswith("-")
        is_costly = wanted.skips_rows or name != "submitted"
        if set_number is not None and not is_costly and wanted.submitted_after_ms is None:
            branches = _branches_of_set(set_number, wanted)
            found = await _merge_branches(self._view, branches, place, limit, newest=newest)
        else:
            async with (self._costly if is_costly else self._view).snapshot() as view:
                branches = await _read_branches(view, wanted)
                if not branches.keys:
                    return JobPage(JobRows([], set(), {}), None)
                if name == "submitted":
                    found = await _read_part(view, branches, wanted, place, limit, newest=newest)
                else:
                    found = await _read_sorted_part(
                        view, branches, wanted, place, limit, name, newest=newest
                    )
        following = None if found.end is None else list_cursors.encode(query, *found.end)
        return JobPage(found.jobs, following, None if cursor else found.count)

    async def count_jobs(self, wanted: JobFilter, rows: int = GROUP_ROWS) -> str:
        """The number of jobs up to `COUNT_MAX`, with `+` where there are more. A filter that no
        counter has is compared with about `rows` jobs, the newest ones."""
        if wanted.is_counted:
            total = sum((await _read_branches(self._view, wanted)).wanted)
            return str(total) if total <= COUNT_MAX else f"{COUNT_MAX}+"
        async with self._costly.snapshot() as view:
            branches = await _read_branches(view, wanted)
            text = list_statement("count_compared", branches.scope, narrow=_is_narrow(wanted))
            jobs, place = 0, _START
            for first in range(0, rows if branches.keys else 0, COUNT_STEP):
                most = branches.rows_per_branch(min(COUNT_STEP, rows - first))
                (row,) = await view.fetch_text(
                    text, *_compare_arguments(branches, wanted, place, most)
                )
                jobs += row["jobs"]
                place = _find_horizon(row)
                if jobs > COUNT_MAX:
                    return f"{COUNT_MAX}+"
                if place == _START:
                    break
        return f"{jobs}{'' if place == _START else '+'}"

    async def count_groups(self, wanted: JobFilter, by: Sequence[str], limit: int) -> Groups:
        """Jobs per group."""
        if set(by) <= _KEYS.keys() and wanted.is_counted:
            return await self._count_groups_from_counters(wanted, by, limit)
        async with self._costly.snapshot() as view:
            branches = await _read_branches(view, wanted)
            if not branches.keys:
                return Groups([], "0")
            rows = await view.fetch_text(
                list_statement("group_visited", branches.scope, narrow=_is_narrow(wanted, by)),
                branches.keys,
                branches.states,
                wanted.number_min(),
                wanted.submitted_after_ms,
                limit,
                [name for name in by if not name.startswith(LABEL)],
                [name.removeprefix(LABEL) for name in by if name.startswith(LABEL)],
                branches.rows_per_branch(GROUP_ROWS),
                *wanted.arguments(),
            )
        groups = [(_decode_group(row, by), row["jobs"]) for row in rows]
        total = int(rows[0]["total"]) if rows else 0
        cut = bool(rows) and rows[0]["cut"]
        return Groups(groups, f"{total}{'+' if cut else ''}")

    async def _count_groups_from_counters(
        self, wanted: JobFilter, by: Sequence[str], limit: int
    ) -> Groups:
        arguments = (
            *wanted.visible_queues.arguments(),
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
        return Groups(
            groups=[(dict(zip(by, key, strict=True)), jobs) for key, jobs in ordered],
            total=f"{sum(totals.values())}{'+' if len(rows) >= COUNTERS_MAX else ''}",
        )


async def _read_branches(view: ViewReader, wanted: JobFilter) -> Branches:
    scope: Scope = "queue" if wanted.job_set is None else "set"
    rows = await view.fetch(
        f"branches_of_{scope}s",
        *wanted.visible_queues.arguments(),
        wanted.queue,
        wanted.job_set,
        list(wanted.states),
        list(wanted.classes),
        BRANCHES_MAX + 1,
    )
    if len(rows) > BRANCHES_MAX:
        raise invalid_parameter(
            "queue", f"The filter matches more than {BRANCHES_MAX} queues. Name one queue."
        )
    if not rows:
        return _NO_BRANCHES
    return Branches(scope, *to_columns(rows))


def _visit_arguments(
    branches: Branches,
    wanted: JobFilter,
    place: _Place,
    *limits: object,
) -> tuple[object, ...]:
    """The arguments of the fragment `visited`."""
    return (
        branches.keys,
        branches.states,
        wanted.number_min(),
        wanted.submitted_after_ms,
        *place,
        *limits,
    )


def _compare_arguments(
    branches: Branches, wanted: JobFilter, place: _Place, most: list[int]
) -> tuple[object, ...]:
    """The arguments of the fragment `compared`."""
    return (*_visit_arguments(branches, wanted, place, most), *wanted.arguments())


def _find_horizon(row: Mapping[str, Any]) -> _Place:
    """Up to where branches were visited; `_START` if to their ends."""
    return row["horizon_number"], row["horizon_id"]


def _branches_of_set(number: int, wanted: JobFilter) -> Branches:
    """One branch for each state that the filter selects. How many jobs they have is not known."""
    states = [str(state) for state in wanted.states or JobState]
    unknown = [0] * len(states)
    return Branches("set", [number] * len(states), states, unknown, unknown)


async def _merge_branches(
    view: ViewReader,
    branches: Branches,
    place: _Place,
    limit: int,
    *,
    newest: bool,
) -> _Part:
    """A page of a list without a filter, in one statement."""
    rows = await view.fetch_text(
        list_statement("merged_page", branches.scope, newest=newest),
        branches.keys,
        branches.states,
        *place,
        limit + 1,
    )
    end = _find_end(rows, limit, "number", None)
    return _Part(await view.describe_rows(rows[:limit]), end)


async def _read_part(
    view: ViewReader,
    branches: Branches,
    wanted: JobFilter,
    place: _Place,
    limit: int,
    *,
    newest: bool,
) -> _Part:
    if wanted.skips_rows:
        return await _compare_jobs(view, branches, wanted, place, limit, newest=newest)
    if wanted.submitted_after_ms is None and len(branches.keys) * (limit + 1) <= MERGED_ROWS:
        return await _merge_branches(view, branches, place, limit, newest=newest)
    rows: list[Any] = []
    end: tuple[int, str] | None = None
    for limits in _list_attempts(branches, limit):
        read = await view.fetch_text(
            list_statement("page", branches.scope, newest=newest, narrow=_is_narrow(wanted)),
            *_visit_arguments(branches, wanted, place, *limits),
            limit + 1,
        )
        rows = [row for row in read if row["id"] is not None]
        horizon = (read[0]["horizon_number"], read[0]["horizon_id"])
        end = None if horizon[1] is None else horizon
        if len(rows) > limit or end is None:
            break
    return await _make_part(view, rows, limit, "number", end)


async def _compare_jobs(
    view: ViewReader,
    branches: Branches,
    wanted: JobFilter,
    place: _Place,
    limit: int,
    *,
    newest: bool,
) -> _Part:
    """A page of a list with a filter: further jobs are compared as long as it is not full."""
    text = list_statement("compared_page", branches.scope, newest=newest, narrow=_is_narrow(wanted))
    rows: list[Any] = []
    jobs = 0
    for each in COMPARED_ROWS:
        most = branches.rows_per_branch(each)
        read = await view.fetch_text(
            text, *_compare_arguments(branches, wanted, place, most), limit + 1 - len(rows)
        )
        rows += [row for row in read if row["id"] is not None]
        jobs += read[0]["jobs"]
        place = _find_horizon(read[0])
        if len(rows) > limit or place == _START:
            break
    number, id_ = place
    end = None if number is None or id_ is None else (number, id_)
    part = await _make_part(view, rows, limit, "number", end)
    return msgspec.structs.replace(part, count=f"{jobs}{'+' if end else ''}")


async def _read_sorted_part(
    view: ViewReader,
    branches: Branches,
    wanted: JobFilter,
    place: _Place,
    limit: int,
    name: str,
    *,
    newest: bool,
) -> _Part:
    most = [SORT_ROWS + 1] * len(branches.keys)
    if sum(branches.jobs) > SORT_ROWS and wanted.submitted_after_ms is None:
        raise _too_many_to_sort(name)
    rows = await view.fetch_text(
        list_statement("sorted_page", branches.scope, newest=newest),
        *_compare_arguments(branches, wanted, _START, most),
        limit + 1,
        name,
        *place,
    )
    if rows[0]["cut"]:
        raise _too_many_to_sort(name)
    found = [row for row in rows if row["id"] is not None]
    return await _make_part(view, found, limit, "key", None)


async def _make_part(
    view: ViewReader,
    rows: Sequence[Any],
    limit: int,
    key: Literal["number", "key"],
    end: tuple[int, str] | None,
) -> _Part:
    """The jobs of the first of these rows, which have their ids and weeks."""
    jobs = await view.read_jobs(
        [row["id"] for row in rows[:limit]], [row["week"] for row in rows[:limit]]
    )
    return _Part(jobs, _find_end(rows, limit, key, end))


def _find_end(
    rows: Sequence[Any], limit: int, key: Literal["number", "key"], end: tuple[int, str] | None
) -> tuple[int, str] | None:
    """Where the next page begins: after the last of `limit` rows if there are more, else `end`."""
    if len(rows) <= limit:
        return end
    last = rows[limit - 1]
    return last[key], last["id"]


def _is_narrow(wanted: JobFilter, by: Sequence[str] = ()) -> bool:
    """Whether the indexes of branches have all columns that these filters and groups need."""
    columns = (wanted.category, wanted.cluster, wanted.node, wanted.q, wanted.submitted_after_ms)
    has_key = "queue" if wanted.job_set is None else "jobSet"
    return (
        not (wanted.classes or wanted.labels or wanted.annotations)
        and all(value is None for value in columns)
        and all(name in (has_key, "state") for name in by)
    )


def _list_attempts(branches: Branches, limit: int) -> list[tuple[int, list[int]]]:
    """(most branches, most jobs of each) to read: few at first, which is often enough."""
    many = len(branches.keys)
    # This many jobs of this many of the newest branches always contain a whole page.
    whole = (limit + 1, [limit + 1] * many)
    few = [min(each, limit + 1) for each in branches.rows_per_branch(4 * limit)]
    return [whole] if many <= 2 else [(limit + 1, few), whole]


def _decode_group(row: Mapping[str, Any], by: Sequence[str]) -> dict[str, str | None]:
    labels = iter((row["label_1"], row["label_2"], row["label_3"]))
    return {name: next(labels) if name.startswith(LABEL) else row[_COLUMNS[name]] for name in by}


def _too_many_to_sort(name: str) -> Exception:
    return invalid_parameter(
        "sort",
        f"The filter matches more than {SORT_ROWS} jobs, which is too many to sort by {name}."
        " Narrow the filter, or sort by submitted.",
    )
