"""Where a queued job stands in its queue: how many would go before it."""

from typing import Final

from fairlead_lookout.http.deps import Parts
from fairlead_lookout.store.queries.view_reader import JobFound

LOOKED_AT_MAX: Final = 10_000


async def position(parts: Parts, found: JobFound) -> str | None:
    """Its place among the queued jobs of its queue and pool, from 1; None if it is not queued.

    They go by class, priority and submission. A plus sign says that it may be further back: only
    the oldest `LOOKED_AT_MAX` are looked at.
    """
    job = found.row
    if job["state"] != "QUEUED":
        return None
    values = {each.name: each.value for each in parts.settings.priority_classes}
    (row,) = await parts.view.fetch(
        "jobs_before",
        job["queue"],
        LOOKED_AT_MAX,
        job["pool"],
        values.get(job["class"], 0),
        job["priority"],
        job["number"],
        job["id"],
        list(values),
        list(values.values()),
    )
    return f"{row['before'] + 1}{'+' if row['looked_at'] >= LOOKED_AT_MAX else ''}"
