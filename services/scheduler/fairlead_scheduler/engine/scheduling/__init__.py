"""The scheduling pass: which queue is next, where its job goes, who is preempted."""
