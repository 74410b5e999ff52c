"""Routes of webhooks and their deliveries."""
