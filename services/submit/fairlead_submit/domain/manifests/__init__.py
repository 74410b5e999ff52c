"""Manifests of Kubernetes, converted to jobs with a report of what became of each field."""
