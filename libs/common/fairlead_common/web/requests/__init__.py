"""What routes read of a request: its query, its body, its ETags."""
