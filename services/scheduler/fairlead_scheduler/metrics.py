"""What the scheduler counts and times, for Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

CYCLE_SECONDS = Histogram(
    "fairlead_scheduler_cycle_seconds", "Time of one cycle, by step (s)", ["step"]
)
LEASED = Counter("fairlead_scheduler_leased_total", "Jobs that were given a node", ["pool"])
PREEMPTED = Counter("fairlead_scheduler_preempted_total", "Runs asked to give way", ["pool"])
DECIDED = Counter("fairlead_scheduler_decisions_total", "Units decided before scheduling")
EVENTS = Counter("fairlead_scheduler_events_total", "Messages folded into the view")
JOBS = Gauge("fairlead_scheduler_jobs", "Live jobs in the view")
LEADING = Gauge("fairlead_scheduler_leading", "1 while this process leads")
LAG = Gauge(
    "fairlead_scheduler_lag_seconds", "From the log taking a message to the view having it (s)"
)
CHECKPOINT_SECONDS = Histogram(
    "fairlead_scheduler_checkpoint_seconds", "Time to save what changed (s)"
)
