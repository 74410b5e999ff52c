"""The groups of the view, as `fairlead repair` compares them with what the scheduler knows."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fairlead_common.db import Pool
from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records.events import Group, GroupSubmitted
from fairlead_common.domain.repair_events import UNKNOWN_REASON, KnownGroup
from fairlead_lookout.store.view_schema import COVERAGE

_decode_terms: Final = msgspec.json.Decoder(Group).decode
_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


async def list_live_ids(pool: Pool, after: str, ids_max: int) -> list[GroupId]:
    """The ids of groups that have not ended, after this one, in order."""
    rows = await pool.fetch(COVERAGE["list_live_groups"], after, ids_max)
    return [GroupId(row["id"]) for row in rows]


async def find_groups(pool: Pool, ids: Iterable[GroupId]) -> dict[GroupId, KnownGroup]:
    """These groups; those that the view does not have are left out."""
    rows = await pool.fetch(COVERAGE["find_groups"], list(ids))
    return {GroupId(row["id"]): _decode_group(row) for row in rows}


async def find_members(pool: Pool, ids: Iterable[GroupId]) -> dict[GroupId, list[JobId]]:
    """The members of the present generation of these groups, live or ended."""
    members: dict[GroupId, list[JobId]] = {}
    for row in await pool.fetch(COVERAGE["find_members"], list(ids)):
        members.setdefault(GroupId(row["group_id"]), []).append(JobId(row["job_id"]))
    return members


def _decode_group(row: Any) -> KnownGroup:
    submitted = GroupSubmitted(
        group=GroupId(row["id"]),
        terms=_decode_terms(row["terms"]),
        digest=row["digest"],
        client_id=row["client_id"],
        labels=_decode_labels(row["labels"]),
    )
    return KnownGroup(
        state=JobState(row["state"]),
        submitted=submitted,
        queue=row["queue"],
        job_set=row["job_set"],
        reason=row["reason"] or UNKNOWN_REASON,
    )
