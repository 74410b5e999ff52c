"""The pages of queues, clusters, pools, fairness and preemptions."""
