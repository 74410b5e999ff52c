"""Routes of jobs, job sets, arrays and groups: their lists, events, exports and logs."""
