"""Decides which job runs where."""
