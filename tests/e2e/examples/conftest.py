"""One real `fairlead up` for the examples."""

from collections.abc import Iterator

import pytest

from fairlead_standalone.service.testing import Whole


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with Whole(tmp_path_factory.mktemp("up")) as running:
        running.start()
        yield running
