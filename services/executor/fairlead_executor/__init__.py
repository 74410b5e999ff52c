"""Runs what the scheduler leased on one cluster and reports what happened."""
