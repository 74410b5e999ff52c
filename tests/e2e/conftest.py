"""One real `fairlead up` for the tests that leave it running and need no settings of their own."""

from collections.abc import Iterator

import pytest

from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation


@pytest.fixture(scope="package")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneInstallation]:
    """A running Fairlead of this folder; tests may kill parts that the supervisor restarts."""
    with StandaloneInstallation(
        tmp_path_factory.mktemp("up"), environment=PYTHON_ENGINE
    ) as running:
        running.start()
        yield running
