"""What is written within a turn of the loop leaves together, and nothing is lost or kept back."""

import asyncio

from fairlead_common.web.connections import write_coalescing
from fairlead_common.web.connections.write_coalescing import CoalescingTransport


class Wire(asyncio.Transport):
    """Keeps what it is told to do."""

    def __init__(self) -> None:
        super().__init__()
        self.written_chunks: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written_chunks.append(bytes(data))

    def write_eof(self) -> None:
        self.written_chunks.append("eof")

    def close(self) -> None:
        self.written_chunks.append("close")

    def abort(self) -> None:
        self.written_chunks.append("abort")


def joined() -> tuple[Wire, CoalescingTransport]:
    """A transport above another."""
    wire = Wire()
    return wire, CoalescingTransport(wire, asyncio.get_running_loop())


async def test_header_and_body_are_sent_together_at_the_end_of_the_turn() -> None:
    wire, transport = joined()
    transport.write(b"head ")
    transport.write(bytearray(b"body"))
    assert wire.written_chunks == []
    await asyncio.sleep(0)
    assert wire.written_chunks == [b"head body"]


async def test_later_writes_are_sent_later() -> None:
    wire, transport = joined()
    for piece in (b"one", b"two"):
        transport.write(piece)
        await asyncio.sleep(0)
    assert wire.written_chunks == [b"one", b"two"]


async def test_a_buffer_changed_after_its_write_is_sent_unchanged() -> None:
    wire, transport = joined()
    piece = bytearray(b"one")
    transport.write(piece)
    piece[:] = b"two"
    await asyncio.sleep(0)
    assert wire.written_chunks == [b"one"]


async def test_pending_bytes_are_limited() -> None:
    wire, transport = joined()
    transport.write(b"a" * write_coalescing.BYTES_MAX)
    assert wire.written_chunks == []
    transport.write(b"b")
    assert wire.written_chunks == [b"a" * write_coalescing.BYTES_MAX + b"b"]
    transport.write(b"c")
    await asyncio.sleep(0)
    assert wire.written_chunks[1:] == [b"c"]


async def test_closing_sends_pending_writes_first() -> None:
    wire, transport = joined()
    transport.write(b"one")
    transport.write_eof()
    transport.close()
    await asyncio.sleep(0)
    assert wire.written_chunks == [b"one", "eof", "close"]


async def test_an_aborted_connection_sends_nothing_more() -> None:
    wire, transport = joined()
    transport.write(b"one")
    transport.abort()
    await asyncio.sleep(0)
    assert wire.written_chunks == ["abort"]
