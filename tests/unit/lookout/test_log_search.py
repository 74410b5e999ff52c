"""Searches of logs: what they find, where they end, and how they go on."""

from collections.abc import Iterator, Sequence
from itertools import count, repeat

from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records.log_parts import LogPart
from fairlead_lookout.http.pages.logs import log_search, terminal_text
from fairlead_lookout.http.pages.logs.log_search import MATCHES_MAX, Searched, find_matches
from fairlead_lookout.http.pages.logs.terminal_text import Span

TEXTS = st.text(st.sampled_from("abAB\n\r\x1b[31mé\u212a\u0130"), max_size=200)


class Log:
    """A log on an executor that sends at most `part_bytes` at once."""

    def __init__(self, data: bytes, part_bytes: int = 1 << 30, *, has_offsets: bool = True) -> None:
        self.data = data
        self.parts_read = 0
        self._part_bytes = part_bytes
        self._has_offsets = has_offsets

    async def read(self, before: int | None) -> tuple[bytes, LogPart]:
        self.parts_read += 1
        size = len(self.data)
        end = size if before is None else min(before, size)
        begin = max(0, end - self._part_bytes)
        if not self._has_offsets:
            return self.data[-self._part_bytes :], LogPart(is_cut=begin > 0)
        return self.data[begin:end], LogPart(begin > 0, begin, 0, size)


async def search(
    log: Log, wanted: str, before: int | None = None, times_s: Iterator[float] | None = None
) -> Searched:
    times_s = times_s or repeat(0.0)
    return await log_search.search(log.read, wanted, before, lambda: next(times_s))


def show(spans: Sequence[Span]) -> str:
    return "".join(span.text for span in spans)


def list_lines(data: bytes, wanted: str) -> list[str]:
    """The plain definition of a search."""
    lines = data.removesuffix(b"\n").split(b"\n")
    texts = [terminal_text.clean_line(line.decode(errors="replace")) for line in lines]
    return [text for text in texts if wanted.lower() in text.lower()]


def test_lines_with_a_text_are_found_and_marked() -> None:
    found = find_matches(b"first\n\x1b[31mAn Error\x1b[0m: error\nlast\n", "error")
    assert found.count == 1
    assert found.matches[0].spans == [
        Span("An ", ""), Span("Error", "match"), Span(": ", ""), Span("error", "match"),
        Span("\n", ""),
    ]  # fmt: skip
    assert find_matches(b"first\n", "error").count == 0
    assert find_matches(b"Er\x1b[1mror\n", "error").count == 1
    assert find_matches(b"error\rready\n", "error").count == 0


def test_a_long_line_is_cut_around_its_match() -> None:
    before = b"a" * (16 * terminal_text.PIECE_CHARACTERS - 3)  # lines are cleaned in pieces
    for end in (b"", b"\x1b[0m"):
        found = find_matches(before + b"needle" + b"b" * 10**6 + end, "NEEDLE")
        text = show(found.matches[0].spans)
        assert "needle" in text
        assert len(text) <= log_search.LINE_CHARACTERS_MAX + 1


def test_lines_that_are_compared_one_by_one_are_bounded() -> None:
    found = find_matches("é\n".encode() * (log_search.PART_LINES_MAX + 5), "x")
    assert found.begin == 5 * len("é\n".encode())


@given(TEXTS, st.text(st.sampled_from("abk1[é\u212a\u0130"), min_size=1, max_size=3))
def test_plain_data_are_searched_as_all_others(text: str, wanted: str) -> None:
    plain = text.encode("ascii", "ignore")
    for data in (text.encode(), plain, plain.translate(None, b"\x1b\r")):
        found = find_matches(data, wanted)
        assert found.count == len(list_lines(data, wanted))


@given(TEXTS, st.sampled_from(["a", "ab", "é"]), st.integers(1, 80))
async def test_a_search_in_parts_finds_each_line_once(
    text: str, wanted: str, part_bytes: int
) -> None:
    data = text.encode()
    longest = max(map(len, data.split(b"\n")))
    log = Log(data, longest + 1 + part_bytes)
    found = await search(log, wanted)
    assert found.matches == len(list_lines(data, wanted))
    assert not found.is_cut
    assert (found.bytes, found.bytes_after, found.bytes_total) == (len(data), 0, len(data))


async def test_a_search_goes_on_from_where_its_time_was_over() -> None:
    data = b"".join(b"error %d\n%s\n" % (number, b"x" * 50) for number in range(200))
    log = Log(data, 1_000)
    lines: list[str] = []
    before = None
    for _ in range(100):
        found = await search(log, "error", before, times_s=map(float, count(step=3)))
        assert found.bytes <= 3 * 1_000
        lines = show(found.spans).splitlines() + lines
        before = found.earlier
        if before is None:
            break
    assert lines == list_lines(data, "error")


async def test_a_search_with_many_matches_goes_on_before_those_that_it_lists() -> None:
    log = Log(b"".join(b"error %d\n" % number for number in range(2 * MATCHES_MAX + 3)))
    first = await search(log, "error")
    assert first.matches == 2 * MATCHES_MAX + 3
    assert show(first.spans).startswith(f"error {MATCHES_MAX + 3}\n")
    second = await search(log, "error", first.earlier)
    assert second.matches == MATCHES_MAX + 3
    assert show(second.spans).endswith(f"error {MATCHES_MAX + 2}\n")
    third = await search(log, "error", second.earlier)
    assert (third.matches, third.earlier) == (3, None)


async def test_a_text_across_two_parts_of_a_long_line_is_found() -> None:
    for at in range(90, 111):
        log = Log(b"x" * at + b"needle" + b"x" * (204 - at), 100)
        assert (await search(log, "needle")).matches >= 1


async def test_a_log_without_offsets_is_searched_once() -> None:
    whole = await search(Log(b"error\n" * 3, has_offsets=False), "error")
    assert (whole.matches, whole.is_cut, whole.earlier) == (3, False, None)
    log = Log(b"error\n" * 30, 60, has_offsets=False)
    end = await search(log, "error")
    assert (end.matches, end.is_cut, end.bytes, end.earlier) == (10, True, 60, None)
    assert (end.bytes_total, log.parts_read) == (None, 1)


async def test_what_was_found_is_listed_if_the_rest_cannot_be_read() -> None:
    class BrokenLog(Log):
        async def read(self, before: int | None) -> tuple[bytes, LogPart]:
            if self.parts_read == 2:
                raise Problem("unavailable", "the executor does not respond")
            return await super().read(before)

    found = await search(BrokenLog(b"error\n" * 30, 60), "error")
    assert (found.matches, found.is_cut) == (18, True)
    assert found.earlier == 30 * 6 - 18 * 6
