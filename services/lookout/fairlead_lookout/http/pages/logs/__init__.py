"""The log of a run on the page of its job."""
