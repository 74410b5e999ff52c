"""A Kubernetes cluster."""

from tests.kubernetes_fixtures import control_plane, kubeconfig, second_control_plane

__all__ = ["control_plane", "kubeconfig", "second_control_plane"]
