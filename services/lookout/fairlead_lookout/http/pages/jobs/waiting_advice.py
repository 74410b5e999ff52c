"""What would have to change so that a waiting job starts, for each reason why jobs wait."""

from typing import Final

_NEXT_ROUND: Final = "Nothing to do: the next round of the scheduler continues there."
_GRACE_PERIOD: Final = (
    "Nothing to do: the runs that are being stopped end within their grace period."
)

ADVICE: Final = {
    "insufficient-resources": "It starts when jobs on an eligible node end. With smaller requests"
    " it starts earlier.",
    "over-fair-share": "It starts when jobs of its queue end, or when other queues need less. An"
    " operator can give the queue a greater weight.",
    "no-matching-node": "Change its node selector, tolerations, affinity or size, or add a node"
    " that has what they require.",
    "infeasible": "Submit it again with smaller requests, or ask an operator for larger nodes or a"
    " higher limit.",
    "gang-incomplete": "Submit the missing members of the gang, with the same gang name.",
    "gang-does-not-fit": "It starts when enough jobs end. It starts earlier with a smaller"
    " minSize, or without uniformityLabel.",
    "gang-rest": "Submit it as a job of its own, so that it does not depend on the gang.",
    "group-frozen": "It starts after freezeSeconds of its role. Shorten them to start it earlier.",
    "group-step": _NEXT_ROUND,
    "topology-level": "Submit it with a level that the pool has, or ask an operator to set topology"
    " of the pool.",
    "gang-exceeds-burst": "Lower its minSize, or ask an operator for a higher burst of the start"
    " rate.",
    "queue-cordoned": "An operator must uncordon the queue.",
    "queue-limit": "It starts when jobs of its queue end. An operator can raise the limit.",
    "floating-limit": "It starts when a job ends that uses the same licences or floating resource.",
    "rate-limit": _NEXT_ROUND,
    "round-limit": _NEXT_ROUND,
    "time-limit": _NEXT_ROUND,
    "lookback-limit": "It is examined when jobs before it have started. Raise its priority to move"
    " it forward.",
    "preemption-limit": _NEXT_ROUND,
    "executor-lagging": "Nothing to do for a moment. If it lasts, an operator must look at the"
    " executors of the pool.",
    "not-reached": _NEXT_ROUND,
    "log-stopped": "An operator must finish the upgrade.",
    "waiting-for-preempted-runs": _GRACE_PERIOD,
    "lost-run": "It starts when the executor of that run reports its end, or is given up itself.",
    "all-nodes-tried": "See below why its runs did not start, and repair the cause.",
    "gang-stopping": _GRACE_PERIOD,
    "pool-failing": "An operator must look at the log of the scheduler, which has the error.",
    "hold": "Release it: fairlead release and its id.",
    "startAfter": "Nothing to do: it is scheduled from that time on.",
    "dependencies": "The jobs and arrays below must succeed. If one of them ends otherwise, this"
    " job is cancelled.",
    "array": "Nothing to do: the tasks before it are released first.",
    "max-running": "It starts when running tasks of its array end. The array permits no more at a"
    " time (maxRunning).",
    "scheduling": "Nothing to do: the scheduler examines it in one of the next rounds.",
}
