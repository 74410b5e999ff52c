"""The routes of an executor."""
