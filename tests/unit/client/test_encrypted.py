"""Both clients with TLS: whom they trust, and the way through a proxy."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead import ServerUnreachable
from tests.contract.log.certificates import Authority
from tests.unit.client import fake_server
from tests.unit.client.fake_server import Server
from tests.unit.client.test_transports import Blocking, Connect, OnAsyncio

NAME = "fairlead.example.org"


@pytest.fixture(params=[Blocking, OnAsyncio])
def connect(request: pytest.FixtureRequest) -> Connect:
    made: Connect = request.param
    return made


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Iterator[Server]:
    """An encrypted server, whose certificate is for this machine and for `NAME`."""
    signed = authority.sign(NAME)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(signed.cert, signed.key)
    with fake_server.serve({"GET /api/v1/queues/a": lambda _: {"name": "a"}}, tls) as running:
        yield running


@contextmanager
def tunnel(target: str) -> Iterator[tuple[str, list[bytes]]]:
    """A proxy for one connection, to this server whatever it is asked for; what it was asked."""
    asked: list[bytes] = []
    host, port = target.removeprefix("https://").split(":")

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either end may hang up first
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def run(listener: socket.socket) -> None:
        caller, _ = listener.accept()
        with caller, socket.create_connection((host, int(port))) as upstream:
            asked.append(caller.recv(65_536))
            caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=copy, args=(upstream, caller))
            back.start()
            copy(caller, upstream)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run, args=(listener,))
        thread.start()
        yield f"http://me:secret@127.0.0.1:{listener.getsockname()[1]}", asked
        thread.join()


def test_an_authority_of_the_environment_is_trusted(
    connect: Connect, server: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    assert connect(server.url).call("queue", "a").name == "a"


def test_an_unknown_authority_is_not_trusted(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(ServerUnreachable, match="certificate"):
        connect(server.url).call("queue", "a")


def test_a_server_elsewhere_is_reached_through_a_tunnel(
    connect: Connect, server: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    with tunnel(server.url) as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        assert connect(f"https://{NAME}").call("queue", "a").name == "a"
    assert asked[0].startswith(b"CONNECT fairlead.example.org:443 HTTP/1.")
    assert b"proxy-authorization: basic bwu6c2vjcmv0" in asked[0].lower()
