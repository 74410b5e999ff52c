"""Webhooks without I/O: what a webhook is, its events, bodies, addresses and retries."""
