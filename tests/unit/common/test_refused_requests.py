"""Requests that are not HTTP are counted, and logged once a minute with their number."""

import logging

import pytest
from prometheus_client import REGISTRY

from fairlead_common.web.connections.refused_requests import RefusedRequests, SilentParser


def counted() -> float:
    value = REGISTRY.get_sample_value(
        "fairlead_http_refused_requests_total", {"problem": "malformed"}
    )
    return value or 0.0


def test_a_thousand_malformed_requests_are_one_line_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals, before = RefusedRequests(), counted()
    for _ in range(1_000):
        refusals.note("malformed", "10.0.0.1")
        refusals.log(100.0)
    refusals.log(159.0)
    assert len(caplog.records) == 1
    refusals.log(161.0)
    refusals.log(300.0)
    assert [record.getMessage() for record in caplog.records] == [
        "1 requests were refused before they could be read (1 malformed), the newest from 10.0.0.1",
        "999 requests were refused before they could be read (999 malformed), the newest from"
        " 10.0.0.1",
    ]
    assert counted() - before == 1_000


def test_the_servers_own_line_for_each_is_dropped() -> None:
    def line(text: str) -> logging.LogRecord:
        return logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, text, (), None)

    assert not SilentParser().filter(line("Invalid HTTP request received."))
    assert SilentParser().filter(line("something else"))
