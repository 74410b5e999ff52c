"""The logs that the contract suite runs on: each test runs once on each."""

from collections.abc import AsyncIterator, Iterator

import pytest

from fairlead_common.log.protocol import EventLog
from tests.conftest import Server, run_kafka_broker
from tests.contract.log.beds import Bed, KafkaBed, MemoryBed, PostgresBed

LOGS = ["memory", "postgres", pytest.param("kafka", marks=pytest.mark.kafka)]


@pytest.fixture(scope="package")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Kafka broker of this folder alone."""
    yield from run_kafka_broker(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="package", params=LOGS)
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """Each log in turn."""
    match request.param:
        case "memory":
            yield MemoryBed()
        case "postgres":
            server = request.getfixturevalue("postgres_server")
            yield PostgresBed(server, request.getfixturevalue("database"))
        case "kafka":
            yield KafkaBed(request.getfixturevalue("kafka_broker"))
        case other:
            raise AssertionError(other)


@pytest.fixture
async def log(bed: Bed) -> AsyncIterator[EventLog]:
    """A connection to the log."""
    log = await bed.open()
    yield log
    await log.close()
