"""Logs as terminals show them: colours become classes, everything else plain text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_lookout.http.pages.logs import log_views, terminal_text
from fairlead_lookout.http.pages.logs.terminal_text import Span, split_spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("plain\ttext\n", [Span("plain\ttext\n", "")]),
        ("\x1b[31mred\x1b[0m plain", [Span("red", "fg-1"), Span(" plain", "")]),
        ("\x1b[1;92;44mx\x1b[22;39mx", [Span("x", "fg-10 bg-4 bold"), Span("x", "bg-4")]),
        ("\x1b[38;5;196mx\x1b[38;2;0;0;255my", [Span("x", "fg-9"), Span("y", "fg-12")]),
        ("\x1b[48;5;232mx\x1b[49my", [Span("x", "bg-0"), Span("y", "")]),
        ("\x1b[3;4;9mx", [Span("x", "italic strike underline")]),
        ("\x1b[3;7mx\x1b[23;27my", [Span("x", "inverse italic"), Span("y", "")]),
        ("\x1b[mx\x1b[38;5my\x1b[999mz", [Span("xyz", "")]),
        ("a\x1b[2Kb\x1b]0;title\x07c\x1b(Bd", [Span("abcd", "")]),
        ("10 %\r50 %\r100 %\r\nend", [Span("100 %\nend", "")]),
        ("a\x00b\x08c\x7fd\x9be\u202ef", [Span("a\u2400b\u2408c\u2421d\ufffde\ufffdf", "")]),
    ],
)  # fmt: skip
def test_sequences_become_classes(text: str, spans: list[Span]) -> None:
    assert split_spans(text) == spans


@given(
    st.text(st.sampled_from("\x1b[]01345678;mKa\r\n\x00\x9b\x07<&") | st.characters(codec="utf-8"))
)
def test_no_control_character_remains(text: str) -> None:
    for span in split_spans(text):
        assert all(sign in "\t\n" or sign >= " " for sign in span.text)
        assert "\x7f" not in span.text
        assert all(name.replace("-", "").isalnum() for name in span.classes.split())


def test_a_text_of_colours_only_has_a_bounded_number_of_spans() -> None:
    text = "\x1b[31ma\x1b[32mb" * terminal_text.SPANS_MAX
    spans = split_spans(text)
    assert len(spans) == terminal_text.SPANS_MAX
    assert "".join(span.text for span in spans) == "ab" * terminal_text.SPANS_MAX


def test_the_end_of_a_log_has_a_bounded_number_of_lines_and_bytes() -> None:
    few = log_views.show_end(b"one\ntwo\n")
    assert (few.spans, few.is_cut) == ([Span("one\ntwo", "")], False)
    many = log_views.show_end(b"line\n" * 600)
    assert many.is_cut
    assert "".join(span.text for span in many.spans).count("line") == log_views.LINES_MAX
    long = log_views.show_end(b"x" * (log_views.END_BYTES_MAX + 9))
    assert long.is_cut
    assert sum(len(span.text) for span in long.spans) == log_views.END_BYTES_MAX


def test_binary_data_is_not_displayed() -> None:
    assert log_views.show_end(bytes(range(256)) * 100).is_binary
    assert not log_views.show_end("é\x1b[31mü\x1b[0m\n".encode() * 100).is_binary
    assert not log_views.show_end(b"").is_binary
