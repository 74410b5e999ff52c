"""The HTTP API: routes, and what they read from requests and write to responses."""
