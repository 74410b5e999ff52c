"""The event log in Postgres, the embedded default."""
