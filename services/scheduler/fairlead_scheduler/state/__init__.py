"""The job table, the nodes and queues, and the records of a checkpoint: folds of the log, pure."""
