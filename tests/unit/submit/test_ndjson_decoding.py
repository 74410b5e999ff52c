"""Jobs one a line: the same whatever the pieces they come in, and errors by line."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_submit.domain.jobs.job_line_decoding import LINE_BYTES_MAX, JobLineDecoder
from fairlead_submit.domain.request_types import Submission


def read(body: bytes, step: int = 7, jobs_max: int = 100) -> tuple[Submission, list[FieldError]]:
    lines = JobLineDecoder(jobs_max)
    for start in range(0, len(body), step):
        lines.feed(body[start : start + step])
    request, found = lines.finish("q", "s")
    return request, lines.locate(found)


@given(st.integers(1, 200))
def test_the_chunk_size_does_not_change_the_result(step: int) -> None:
    body = b'{"cpu": 1}\n{"cpu": 2}\r\n\n  {"cpu": 3, "memory": null}\n{"cpu": "\xc3\xa9"}'
    request, found = read(body, step)
    assert found == []
    assert [job.cpu for job in request.jobs or ()] == [1, 2, 3, "é"]


def test_errors_are_located_by_line() -> None:
    body = (
        b'{"cpu": 1}\n\n{"cpu": true}\n{"cpu": 1, "cpu": 2}\n{"a": 1}\n[]\n'
        b'{"labels": {"a": "\\u0000"}}\n'
    )
    request, found = read(body)
    assert [error.pointer for error in found] == [
        "/lines/3/cpu",
        "/lines/4/cpu",
        "/lines/5/a",
        "/lines/6",
        "/lines/7/labels/a",
    ]
    assert len(request.jobs or ()) == 6


ODD_LINES = {
    "two values on a line, and none on the next": b'{"cpu": 1}{"cpu": 2}\n\n',
    "a value over two lines": b'{"cpu":\n1}\n',
    "half a line at the end": b'{"cpu": 1}\n{"cpu"',
    "what is not UTF-8": b'{"cpu": "\xff"}\n',
    "deep nesting": b'{"labels": ' + b"[" * 5_000 + b"\n",
}


@pytest.mark.parametrize("body", ODD_LINES.values(), ids=ODD_LINES.keys())
def test_a_line_that_is_not_json_makes_the_body_malformed(body: bytes) -> None:
    with pytest.raises(Problem) as refused:
        read(body)
    assert refused.value.slug == "malformed"
    assert refused.value.field_errors


def test_reading_stops_at_the_limit() -> None:
    lines = JobLineDecoder(jobs_max=2)
    lines.feed(b"{}\n{}\n")
    with pytest.raises(Problem) as refused:
        lines.feed(b"{}\n")
    assert refused.value.slug == "invalid"
    lines = JobLineDecoder(jobs_max=2)
    with pytest.raises(Problem) as refused:
        lines.feed(b" " * (LINE_BYTES_MAX + 1))
    assert refused.value.slug == "too-large"


def test_an_empty_body_has_no_jobs() -> None:
    assert read(b"") == (msgspec.convert({"queue": "q", "jobSet": "s", "jobs": []}, Submission), [])


def test_possible_secrets_in_any_line_are_found() -> None:
    lines = JobLineDecoder(jobs_max=10)
    lines.feed(b'{"env": {"A": {"value": "x", "secret": true}}}\n{"cpu": 1}\n')
    lines.feed(b'{"cpu": 2}\n')
    assert lines.may_have_secrets
    plain = JobLineDecoder(jobs_max=10)
    plain.feed(b'{"env": {"A": {"value": "x"}}}\n')
    assert not plain.may_have_secrets
