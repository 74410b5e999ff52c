"""One real `fairlead up` for the examples."""

from collections.abc import Iterator

import pytest

from fairlead_standalone.service.testing import StandaloneInstallation


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneInstallation]:
    with StandaloneInstallation(tmp_path_factory.mktemp("up")) as running:
        running.start()
        yield running
