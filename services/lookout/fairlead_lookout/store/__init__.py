"""What lookout keeps and reads: Postgres, Redis, and topics in memory."""
