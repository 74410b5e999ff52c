"""What of the children's output is kept, and what a person gets to see."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_standalone.processes import process_output
from fairlead_standalone.processes.process_output import Output, RotatingLog, select_important

LINES = {
    "an error of a service is shown": (b'{"level": "ERROR", "message": "x"}', "x"),
    "its chatter is not": (b'{"level": "INFO", "message": "x"}', None),
    "a panic of Postgres is": (b"2026 PANIC:  could not write", "2026 PANIC:  could not write"),
    "a full disk is": (b"ERROR: No space left on device", "ERROR: No space left on device"),
    "connections ended by a stop are not": (b"FATAL:  terminating connection", None),
    "a line that is cut is not": (b'{"level": "ERROR", "mess', None),
    "bytes that are no text are shown as far as they go": (b"PANIC: \xff", "PANIC: \ufffd"),
}


@pytest.mark.parametrize(("line", "want"), LINES.values(), ids=LINES.keys())
def test_important(line: bytes, want: str | None) -> None:
    assert select_important(line) == want


@pytest.fixture
def printed_lines() -> list[str]:
    """What a person saw."""
    return []


@pytest.fixture
def rotating_log(tmp_path: Path) -> Iterator[RotatingLog]:
    """The log file of a child."""
    with contextlib.closing(RotatingLog(tmp_path / "web.log")) as file:
        yield file


@pytest.fixture
def sink(rotating_log: RotatingLog, printed_lines: list[str]) -> Output:
    """The output of a child called web."""
    return Output("web", rotating_log, printed_lines.append)


def test_lines_can_arrive_in_pieces(sink: Output, printed_lines: list[str]) -> None:
    sink.feed(b'{"level": "ERROR", "mes', 0)
    sink.feed(b'sage": "x"}\nPANIC: y', 0)
    sink.feed(b"\n", 0)
    assert printed_lines == ["web: x", "web: PANIC: y"]


def test_a_flood_is_cut_and_says_where_the_rest_is(sink: Output, printed_lines: list[str]) -> None:
    sink.feed(b"PANIC: y\n" * 1000, 0)
    assert len(printed_lines) == process_output.FORWARDED_LINES_MAX + 1
    assert printed_lines[-1].endswith("web.log")
    sink.feed(b"PANIC: z\n", process_output.FORWARD_WINDOW_S + 1)
    assert printed_lines[-1] == "web: PANIC: z"


def test_a_line_without_end_needs_no_memory_without_end(sink: Output) -> None:
    for _ in range(100):
        sink.feed(b"x" * 10_000, 0)
    assert len(sink._rest) <= process_output.LINE_BYTES_MAX


def test_a_log_is_limited_to_twice_its_bound(tmp_path: Path) -> None:
    rotating_log = RotatingLog(tmp_path / "web.log", bytes_max=100)
    for number in range(50):
        rotating_log.write(b"%09d\n" % number)
    rotating_log.close()
    newer, older = (tmp_path / "web.log").read_bytes(), (tmp_path / "web.log.1").read_bytes()
    assert len(newer) <= 100
    assert (older + newer).endswith(b"000000048\n000000049\n")


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        rotating_log = RotatingLog(tmp_path / "web.log")
        rotating_log.write(text)
        rotating_log.close()
    assert (tmp_path / "web.log").read_bytes() == b"one\ntwo\n"


def test_a_log_that_cannot_be_written_is_said_once(printed_lines: list[str]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this machine")
    with contextlib.closing(RotatingLog(full)) as rotating_log:
        sink = Output("web", rotating_log, printed_lines.append)
        sink.feed(b"x\n", 0)
        sink.feed(b"x\n", 0)
    assert len(printed_lines) == 1
    assert "No space left" in printed_lines[0]


def test_a_disk_that_refuses_a_new_file_leaves_the_old_one_in_use(tmp_path: Path) -> None:
    logs, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    logs.mkdir()
    with contextlib.closing(RotatingLog(logs / "web.log", bytes_max=8)) as rotating_log:
        rotating_log.write(b"12345678")
        logs.rename(elsewhere)  # as a full disk: no file can be made there
        for _ in range(2):
            with pytest.raises(OSError, match="No such file"):
                rotating_log.write(b"9")
        elsewhere.rename(logs)
        rotating_log.write(b"10")
    assert (logs / "web.log").read_bytes() == b"10"
    assert (logs / "web.log.1").read_bytes() == b"12345678"
