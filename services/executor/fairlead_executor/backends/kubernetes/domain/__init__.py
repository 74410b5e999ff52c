"""What is decided about pods, nodes and operations of a Kubernetes cluster. Pure."""
