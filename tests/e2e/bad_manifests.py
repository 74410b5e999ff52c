"""Manifests that are refused, in the form of `bad_input.py`."""

from typing import Final

from tests.e2e.bad_input import Case, post

_POD: Final = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
_TRAINING_JOB: Final = {
    "apiVersion": "paddlepaddle.org/v1",
    "kind": "TrainingJob",
    "spec": {"trainer": {"min-instance": 1}},
}

CASES: Final[dict[str, Case]] = {
    "no manifests": post("/manifests", 422, "/manifests", {"queue": "{queue}"}),
    "manifests of nothing": post("/manifests", 422, "/manifests", {"manifests": []}),
    "a manifest of an unknown kind": post(
        "/manifests/convert", 422, "/manifests/0/kind", {"manifests": [{"kind": "Deployment"}]}
    ),
    "several manifests, one of an unknown kind": post(
        "/manifests", 422, "/manifests/1/kind", {"manifests": [_POD, {**_POD, "kind": "Cat"}]}
    ),
    "a training job without a name": post(
        "/manifests", 422, "/manifests/0/metadata/name", {"manifests": [_TRAINING_JOB]}
    ),
    "a pod without a name": post(
        "/manifests",
        422,
        "/manifests/1/metadata/name",
        {"manifests": [_POD, {**_POD, "metadata": {"generateName": "a-"}}]},
    ),
    "a training job with a minimum above its maximum": post(
        "/manifests/convert",
        422,
        "/manifests/0/spec/trainer/min-instance",
        {
            "manifests": [
                {
                    **_TRAINING_JOB,
                    "metadata": {"name": "a"},
                    "spec": {
                        "fault_tolerant": True,
                        "trainer": {"min-instance": 5, "max-instance": 2},
                    },
                }
            ]
        },
    ),
    "a manifest that is a text": post("/manifests", 422, "/manifests/0", {"manifests": ["x"]}),
    "a key of a manifest twice": post(
        "/manifests", 422, "/manifests/0/kind", b'{"manifests": [{"kind": "Job", "kind": "Pod"}]}'
    ),
    "manifests without a queue": post(
        "/manifests",
        422,
        "/queue",
        {"manifests": [_POD]},
    ),
}
