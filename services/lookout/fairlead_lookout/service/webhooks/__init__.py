"""The worker that makes and sends deliveries of webhooks."""
