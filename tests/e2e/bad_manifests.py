"""Manifests that are refused, in the form of `bad_input.py`."""

from typing import Final

from tests.e2e.bad_input import Case, post

CASES: Final[dict[str, Case]] = {
    "no manifests": post("/manifests", 422, "/manifests", {"queue": "{queue}"}),
    "manifests of nothing": post("/manifests", 422, "/manifests", {"manifests": []}),
    "a manifest of an unknown kind": post(
        "/manifests/convert", 422, "/manifests/0/kind", {"manifests": [{"kind": "Deployment"}]}
    ),
    "a manifest that is a text": post("/manifests", 422, "/manifests/0", {"manifests": ["x"]}),
    "a key of a manifest twice": post(
        "/manifests", 422, "/manifests/0/kind", b'{"manifests": [{"kind": "Job", "kind": "Pod"}]}'
    ),
    "manifests without a queue": post(
        "/manifests",
        422,
        "/queue",
        {"manifests": [{"apiVersion": "v1", "kind": "Pod", "spec": {}}]},
    ),
}
