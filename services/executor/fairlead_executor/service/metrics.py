"""The Prometheus metrics of the executor."""

from prometheus_client import Counter, Gauge, Histogram

LEASES = Gauge("fairlead_executor_leases", "Leases that are not cleared")
PODS = Gauge("fairlead_executor_pods", "Pods on the cluster, ended ones that wait included")
REPORTS = Counter("fairlead_executor_reports_total", "Reports appended", ["type"])
TURN_SECONDS = Histogram(
    "fairlead_executor_turn_seconds", "Duration of one pass of the loop, by step (s)", ["step"]
)
APPENDS_FAILED = Counter(
    "fairlead_executor_appends_failed_total", "Appends that had to be repeated", ["outcome"]
)
OBJECTS_SKIPPED = Counter(
    "fairlead_executor_objects_skipped_total",
    "Kubernetes objects that could not be decoded and were skipped, by kind",
    ["kind"],
)
