"""Shows what happens: API, pages and event streams."""
