"""Mistakes in ports and URLs are sentences that name the way out."""

import re
import socket
import sys
from collections.abc import Iterator

import pytest

from fairlead_standalone.servers import addresses
from fairlead_standalone.servers.addresses import AddressRefused


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_free_port_is_fine() -> None:
    addresses.check_free(addresses.free_port())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server listen beside it")
def test_a_free_port_is_for_our_server_alone_before_it_listens_and_after_it_was_killed() -> None:
    port = addresses.free_port()
    for _ in range(2):
        with socket.socket() as somebody, pytest.raises(OSError, match="in use"):
            somebody.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)
        with socket.create_server(("127.0.0.1", port)):
            socket.create_connection(("127.0.0.1", port), 1).close()


def test_a_port_in_use_is_refused_and_a_free_one_named(taken: int) -> None:
    with pytest.raises(AddressRefused, match=f"Port {taken} .*fairlead up --port") as refused:
        addresses.check_free(taken)
    (named,) = re.findall(r"--port (\d+)", str(refused.value))
    addresses.check_free(int(named))


def test_a_port_for_root_alone_is_not_said_to_be_in_use() -> None:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", 81))
        except PermissionError:
            pass
        else:
            pytest.skip("this user may serve any port")
    with pytest.raises(AddressRefused, match=r"Permission denied.*--port"):
        addresses.check_free(81)


def test_an_address_that_answers_is_completed(taken: int) -> None:
    checked = addresses.check_url("--kafka", f"127.0.0.1:{taken}", ("kafka",))
    assert checked == f"kafka://127.0.0.1:{taken}"


def test_one_of_several_brokers_is_enough(taken: int) -> None:
    url = f"kafka://127.0.0.1:{addresses.free_port()},127.0.0.1:{taken}"
    assert addresses.check_url("--kafka", url, ("kafka",)) == url


def test_a_broker_that_is_not_there_is_named() -> None:
    url = f"kafka://127.0.0.1:{addresses.free_port()}"
    with pytest.raises(AddressRefused, match=r"Nothing answers .*--kafka .*refused.*built-in"):
        addresses.check_url("--kafka", url, ("kafka",))


@pytest.mark.parametrize("url", ["http://h:1", "kafka://", "kafka://h:port", "kafka://h:99999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused, match="--kafka"):
        addresses.check_url("--kafka", url, ("kafka",))


def test_brokers_that_answer_to_a_url_that_makes_no_sense_are_refused(taken: int) -> None:
    with pytest.raises(AddressRefused, match=r"--kafka: .*both cert and key"):
        addresses.check_kafka(f"kafka+tls://127.0.0.1:{taken}?cert=/c.pem")


def test_a_password_is_no_part_of_the_message() -> None:
    url = f"postgresql://me:secret@127.0.0.1:{addresses.free_port()}/fairlead"
    with pytest.raises(AddressRefused) as refused:
        addresses.check_url("--postgres", url, ("postgresql",))
    assert "secret" not in str(refused.value)
