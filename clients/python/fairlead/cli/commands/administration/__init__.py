"""Commands for operators: queues, clusters, tokens, secrets and webhooks."""
