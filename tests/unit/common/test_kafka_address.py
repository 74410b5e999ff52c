"""What a Kafka URL says, and what is wrong with one that makes no sense."""

from pathlib import Path

import pytest

from fairlead_common.domain.errors import LogUrlInvalid
from fairlead_common.log.kafka import address as kafka_address


def test_a_plain_address_uses_no_tls_and_no_user() -> None:
    address = kafka_address.parse("kafka://one:9092,two:9092")
    assert address.options() == {
        "bootstrap_servers": "one:9092,two:9092",
        "security_protocol": "PLAINTEXT",
    }


def test_user_and_password_can_contain_any_character() -> None:
    options = kafka_address.parse("kafka+tls://a%40b:p%3A%2F%40w@h:1").options()
    assert options["security_protocol"] == "SASL_SSL"
    assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    assert options["sasl_plain_username"] == "a@b"
    assert options["sasl_plain_password"] == "p:/@w"


def test_certificates_of_the_brokers_are_checked() -> None:
    tls = kafka_address.parse("kafka+tls://h:1").tls
    assert tls is not None
    assert tls.check_hostname


def test_messages_name_the_user_and_not_the_password() -> None:
    address = kafka_address.parse("kafka+tls://me:secret@h:1")
    assert str(address) == repr(address) == "h:1 as me over TLS"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h:1", "begins with kafka://"),
        ("kafka://", "must name at least one broker"),
        ("kafka://me@h:1", "a user and a password"),
        ("kafka://:pw@h:1", "a user and a password"),
        ("kafka://me:pw@h:1?mechanism=PLAIN", "unencrypted"),
        ("kafka://me:pw@h:1?mechanism=GSSAPI", "mechanism is one of"),
        ("kafka://h:1?ca=/ca.pem", "kafka\\+tls:// only"),
        ("kafka+tls://h:1?verify=no", "no 'verify'"),
        ("kafka+tls://h:1?ca=/a&ca=/b", "twice"),
        ("kafka+tls://h:1?cert=/a", "both cert and key"),
        ("kafka+tls://h:1?ca=/nowhere/ca.pem", "/nowhere/ca.pem"),
    ],
)
def test_an_invalid_kafka_url_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(LogUrlInvalid, match=why):
        kafka_address.parse(url)


def test_an_invalid_certificate_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(LogUrlInvalid, match=r"ca\.pem"):
        kafka_address.parse(f"kafka+tls://h:1?ca={tmp_path}/ca.pem")
