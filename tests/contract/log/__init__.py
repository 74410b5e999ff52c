"""Tests of event logs."""
