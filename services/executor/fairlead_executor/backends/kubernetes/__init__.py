"""The backend that runs jobs as pods of a Kubernetes cluster."""
