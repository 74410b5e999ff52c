"""The scheduler's tables in Postgres: migrations and the checkpoint."""
