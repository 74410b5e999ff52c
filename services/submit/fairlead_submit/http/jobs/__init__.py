"""Calls for jobs, arrays and groups: submissions, manifests, and changes of what exists."""
