"""Groups: distributed jobs of several roles. Pure."""
