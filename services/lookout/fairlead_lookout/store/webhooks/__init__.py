"""Webhooks and their deliveries in Postgres."""
