"""A short `make fuzz`: requests made from the OpenAPI document and then spoilt, from one seed."""

from pathlib import Path

from fairlead_standalone.service.testing import StandaloneInstallation
from tests import fuzz

REQUESTS = 1_000
SEED = 11


def test_no_fuzzed_request_is_a_500_hangs_or_leaks_memory(tmp_path: Path) -> None:
    with StandaloneInstallation(tmp_path, "--backend", "simulated") as standalone:
        standalone.start()
        outcome = fuzz.run(standalone, (), requests=REQUESTS, seed=SEED)
        assert not outcome.failures
        assert outcome.requests >= REQUESTS
        assert outcome.statuses["422"] > 50, "requests reach the routes"
        assert outcome.statuses["200"] > 20, "and some of them are right"
