"""Two kinds of running Fairlead: this machine, and a simulated cluster. One module uses each."""

import json
from collections.abc import Iterator

import pytest

from fairlead_standalone.service.testing import StandaloneInstallation
from tests.e2e.scheduling.installation import Installation

SIMULATION = {
    "nodes": [
        {"name": "n", "count": 4, "resources": {"cpu": 4, "memory": "16Gi"}},
        {"name": "pair", "count": 2, "resources": {"cpu": 2, "memory": "4Gi"}, "pool": "pairs"},
        {"name": "lone", "count": 1, "resources": {"cpu": 2, "memory": "4Gi"}, "pool": "lonely"},
        {"name": "small", "count": 1, "resources": {"cpu": 2, "memory": "4Gi"}, "pool": "wishes"},
        {
            "name": "fast",
            "count": 1,
            "resources": {"cpu": 4, "memory": "8Gi"},
            "pool": "wishes",
            "labels": {"disk": "nvme"},
        },
        *(
            {
                "name": f"rack-{rack}-",
                "count": count,
                "resources": {"cpu": 2, "memory": "4Gi"},
                "pool": "racks",
                "labels": {"zone": "z", "example.com/rack": rack},
            }
            for rack, count in (("a", 2), ("b", 3))
        ),
    ]
}
RULES = {"pools": {"racks": {"topology": ["zone", "example.com/rack", "hostname"]}}}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Commands run here, on what counts as two cores and a gigabyte."""
    environment = {"FAIRLEAD_RESOURCES": json.dumps({"cpu": "2", "memory": "1Gi"})}
    yield from _running(
        StandaloneInstallation(tmp_path_factory.mktemp("machine"), environment=environment)
    )


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Nothing runs; there are a few small pools, and an executor is given up soon."""
    environment = {
        "FAIRLEAD_SIMULATION": json.dumps(SIMULATION),
        "FAIRLEAD_RULES": json.dumps(RULES),
        "FAIRLEAD_HEARTBEAT_S": "0.5",
        "FAIRLEAD_EXECUTOR_STALE_S": "6",
        "FAIRLEAD_EXECUTOR_TIMEOUT_S": "8",
    }
    folder = tmp_path_factory.mktemp("simulated")
    yield from _running(
        StandaloneInstallation(folder, "--backend", "simulated", environment=environment)
    )


def _running(standalone: StandaloneInstallation) -> Iterator[Installation]:
    with standalone:
        standalone.start()
        installation = Installation(standalone)
        try:
            yield installation
        finally:
            installation.close()
