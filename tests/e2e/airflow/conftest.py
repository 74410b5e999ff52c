"""One Airflow for all tests of a module: it takes a tenth of a core when nothing uses it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_standalone.service.testing import StandaloneInstallation
from tests.airflow_environment import AirflowUnavailable
from tests.conftest import Server, made_database
from tests.e2e.airflow.installation import AirflowInstallation

DAGS = Path(__file__).parent / "dags"
EXAMPLES = Path(__file__).parents[3] / "examples" / "airflow"


@pytest.fixture(scope="module")
def airflow(
    postgres_server: Server,
    standalone: StandaloneInstallation,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AirflowInstallation]:
    """A running Airflow with the DAGs of these tests and of the examples."""
    databases = made_database(postgres_server)
    try:
        installation = AirflowInstallation(
            tmp_path_factory.mktemp("airflow"), next(databases), standalone
        )
    except AirflowUnavailable as error:
        pytest.skip(f"no Airflow: {error}")
    with installation:
        installation.install_dags(DAGS)
        installation.install_dags(EXAMPLES)
        installation.start()
        yield installation
    next(databases, None)
