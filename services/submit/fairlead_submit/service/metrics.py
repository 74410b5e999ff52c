"""The Prometheus metrics of submit."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

REQUESTS: Final = Counter("fairlead_submit_requests_total", "Requests by call.", ["call"])
JOBS: Final = Counter("fairlead_submit_jobs_total", "Jobs accepted, repeats not counted.")
DUPLICATES: Final = Counter("fairlead_submit_duplicates_total", "Jobs that existed already.")
APPEND_SECONDS: Final = Histogram(
    "fairlead_submit_append_seconds",
    "Time of one append to the log.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
APPENDS: Final = Counter("fairlead_submit_appends_total", "Appends by outcome.", ["outcome"])
LIVE_JOBS: Final = Gauge("fairlead_submit_live_jobs", "Live jobs, as quotas count them.", ["queue"])
LIVE_BYTES: Final = Gauge(
    "fairlead_submit_live_bytes", "Bytes of live jobs, as quotas count them.", ["queue"]
)
QUOTA: Final = Gauge("fairlead_submit_quota", "The quotas, by setting.", ["quota"])
QUOTA_REFUSALS: Final = Counter(
    "fairlead_submit_quota_refusals_total", "Requests beyond a quota, by setting.", ["quota"]
)
PENDING_REQUESTS: Final = Gauge(
    "fairlead_submit_pending_requests", "Requests that wait for the log."
)
PENDING_BYTES: Final = Gauge("fairlead_submit_pending_bytes", "Bytes that wait for the log.")
OUTBOX: Final = Gauge(
    "fairlead_submit_outbox_rows",
    "Changes that are not in the log yet, in the process that relays them.",
)
UNSEEN_JOBS: Final = Gauge(
    "fairlead_submit_unseen_jobs",
    "Accepted jobs of large requests that lookout's view was not known to show.",
)
VIEW_WAIT_SECONDS: Final = Histogram(
    "fairlead_submit_view_wait_seconds",
    "How long requests with many jobs waited for lookout's view.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
VIEW_WAITS_ENDED: Final = Counter(
    "fairlead_submit_view_waits_ended_total",
    "Requests that were appended because they had waited for the view as long as any does.",
)
