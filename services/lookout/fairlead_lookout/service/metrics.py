"""The Prometheus metrics of lookout."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

EVENTS: Final = Counter("fairlead_lookout_events_folded_total", "Events of fairlead.jobs folded.")
BATCH_S: Final = Histogram(
    "fairlead_lookout_batch_seconds",
    "Seconds from the first read of a batch's rows to its commit.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
LAG_S: Final = Gauge(
    "fairlead_lookout_lag_seconds", "Age of the newest message folded, when it was committed."
)
LAG_MESSAGES: Final = Gauge(
    "fairlead_lookout_lag_messages", "Positions between the view and the end of the log."
)
PARTITIONS: Final = Gauge("fairlead_lookout_partitions_held", "Partitions folded by this process.")
VIEW_UNUSABLE = Gauge(
    "fairlead_lookout_view_unusable", "1 while the view waits for `fairlead repair`"
)
DELIVERIES_MADE: Final = Counter(
    "fairlead_lookout_webhook_deliveries_total", "Deliveries of webhooks made from events."
)
DELIVERY_ATTEMPTS: Final = Counter(
    "fairlead_lookout_webhook_attempts_total",
    "Attempts to send a delivery, by outcome.",
    ["outcome"],
)
DELIVERY_S: Final = Histogram(
    "fairlead_lookout_webhook_attempt_seconds",
    "Seconds of an attempt to send a delivery.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
