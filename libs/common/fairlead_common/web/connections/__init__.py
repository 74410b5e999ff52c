"""HTTP connections: their limits, counts of requests refused there, and fewer writes."""
