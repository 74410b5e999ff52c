"""Orders of queues other than by priority and submission."""
