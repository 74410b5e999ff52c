"""Manifests of Kubernetes, converted to jobs with a report that says what each field becomes."""
