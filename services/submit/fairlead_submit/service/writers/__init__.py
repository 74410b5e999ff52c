"""Writes to the log: group commit, quotas, and the pace of new jobs."""
