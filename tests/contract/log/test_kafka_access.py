"""Brokers that want to know who we are, and prove who they are: TLS, passwords, certificates."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from fairlead_common.domain.errors import LogUnavailable, LogUrlInvalid
from fairlead_common.log.kafka.event_log import KafkaLog
from fairlead_common.log.opening import open_log
from fairlead_standalone.processes.child_process import RunningProcess
from fairlead_standalone.servers.addresses import free_port
from tests.contract.log.beds import a_name
from tests.contract.log.certificates import Authority, Signed
from tests.contract.log.helpers import everything, made, record, texts
from tests.kafka_broker import BrokerUnavailable, KafkaBroker

pytestmark = pytest.mark.kafka

PASSWORD = "a:b/c@d"
JAAS = "org.apache.kafka.common.security"
TIMEOUT_S = 30.0
REFUSED_S = 1.0


class Guarded(msgspec.Struct, frozen=True):
    """A broker with three listeners: TLS and a password, TLS and a certificate, a password."""

    by_password: str
    by_certificate: str
    unencrypted: str
    ca: Path
    client: Signed


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Started once for this module."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    broker, client = authority.sign("broker"), authority.sign("client")
    open_, controller, *ports = (free_port() for _ in range(5))
    addresses = [f"127.0.0.1:{port}" for port in ports]
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{open_},CONTROLLER://127.0.0.1:{controller},"
        f"PASSWORD://{addresses[0]},CERTIFICATE://{addresses[1]},CLEAR://{addresses[2]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{open_},"
        f"PASSWORD://{addresses[0]},CERTIFICATE://{addresses[1]},CLEAR://{addresses[2]}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "PASSWORD:SASL_SSL,CERTIFICATE:SSL,CLEAR:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "listener.name.certificate.ssl.client.auth": "required",
    }
    for listener in ("password", "clear"):
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = (
            f"{JAAS}.scram.ScramLoginModule required;"
        )
        settings[f"{prefix}.plain.sasl.jaas.config"] = (
            f'{JAAS}.plain.PlainLoginModule required user_fairlead="{PASSWORD}";'
        )
    scram = f"SCRAM-SHA-512=[name=fairlead,password={PASSWORD}]"
    try:
        program = KafkaBroker(
            folder / "kafka", settings=settings, format_options=("--add-scram", scram)
        )
    except BrokerUnavailable as error:
        pytest.skip(f"no Kafka broker: {error}")
    program.port = open_
    with RunningProcess(program, folder / "kafka.log") as running:
        running.start()
        yield Guarded(addresses[0], addresses[1], addresses[2], authority.ca, client)


def signed_in(password: str = PASSWORD) -> str:
    return f"fairlead:{quote(password, safe='')}"


async def check_usable(url: str) -> None:
    """A record goes in and comes out."""
    log = await KafkaLog.open(url, timeout_s=TIMEOUT_S)
    try:
        topic = await made(log)
        producer = await log.producer(a_name())
        await producer.append([record(topic, "a", "1")])
        assert texts(await everything(log, topic)) == ["1"]
    finally:
        await log.close()


async def check_refused(url: str) -> None:
    with pytest.raises(LogUnavailable, match="Kafka"):
        await KafkaLog.open(url, timeout_s=REFUSED_S)


@pytest.mark.parametrize("mechanism", ["", "&mechanism=SCRAM-SHA-512", "&mechanism=PLAIN"])
async def test_a_password_opens_a_log_over_tls(guarded: Guarded, mechanism: str) -> None:
    place = f"{signed_in()}@{guarded.by_password}"
    await check_usable(f"kafka+tls://{place}?ca={guarded.ca}{mechanism}")


async def test_scram_keeps_the_password_secret_without_tls(guarded: Guarded) -> None:
    await check_usable(f"kafka://{signed_in()}@{guarded.unencrypted}")


async def test_a_certificate_opens_a_log(guarded: Guarded) -> None:
    client = guarded.client
    keys = f"cert={client.cert}&key={client.key}"
    await check_usable(f"kafka+tls://{guarded.by_certificate}?ca={guarded.ca}&{keys}")


async def test_a_wrong_password_a_missing_one_and_a_missing_certificate_are_refused(
    guarded: Guarded,
) -> None:
    await check_refused(f"kafka+tls://{signed_in('wrong')}@{guarded.by_password}?ca={guarded.ca}")
    await check_refused(f"kafka+tls://{guarded.by_password}?ca={guarded.ca}")
    await check_refused(f"kafka+tls://{guarded.by_certificate}?ca={guarded.ca}")


async def test_brokers_with_an_untrusted_certificate_are_refused(
    guarded: Guarded, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path).ca
    await check_refused(f"kafka+tls://{signed_in()}@{guarded.by_password}?ca={stranger}")


async def test_an_invalid_url_is_refused_before_connecting() -> None:
    with pytest.raises(LogUrlInvalid, match="mechanism"):
        await open_log("kafka+tls://u:p@h:1?mechanism=GUESS")
