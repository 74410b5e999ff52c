"""Settings of lookout."""

from typing import Annotated

from msgspec import Meta

from fairlead_common.domain.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.service.access_settings import Count, Positive
from fairlead_common.service.settings import Settings as Common

Days = Annotated[int, Meta(ge=0)]


class Settings(Common, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Beyond what every service needs.

    `fold_interval_s`: under load, how far apart batches begin at least (longer ones cost less per
    event). `fold_events_max`: about the most events of a batch, and the most jobs of a part of a
    request about many. `jobs_known_max`: jobs that the fold keeps in memory. `events_days`: days
    for which public events are kept; `jobs_days`: days for which jobs are kept after they ended;
    `usage_days`: days for which resource-hours and shares by the hour are kept. `away_s`: how long
    the log or the database may be away before the process ends. `streams_max`: event streams, live
    pages and exports open at once, of which one caller has at most `streams_per_caller_max`;
    `waits_max` and `waits_per_caller_max`: long polls. `pool_size`: statements of pages and lists
    that run at a time; `costly_max` of them look at many rows (groups, counts, filters by label),
    one of each caller; of the others one caller has at most three quarters. Exports have
    `export_pool_size` connections of their own. A statement is ended after `query_s`, one of an
    export after `export_query_s`.
    """

    priority_classes: tuple[PriorityClass, ...] = DEFAULT_CLASSES
    jobs_days: Days = 30
    usage_days: Days = 400
    fold_interval_s: Annotated[float, Meta(ge=0)] = 0.2
    fold_events_max: Count = 10_000
    jobs_known_max: Count = 100_000
    events_days: Days = 30
    away_s: Positive = 900.0
    streams_max: Count = 1_000
    streams_per_caller_max: Count = 350
    waits_max: Count = 1_000
    waits_per_caller_max: Count = 350
    pool_size: Count = 8
    costly_max: Count = 2
    export_pool_size: Count = 2
    query_s: Positive = 15.0
    export_query_s: Positive = 30.0
