"""Lines of a service's log."""

import json
import logging

import httpx2
from fastapi import APIRouter

from fairlead_common.service import json_logging
from fairlead_common.service.settings import Settings
from fairlead_common.web import server


def line(record: logging.LogRecord) -> dict[str, object]:
    found: dict[str, object] = json.loads(json_logging.JsonFormatter().format(record))
    return found


def test_a_log_line_is_one_object_with_its_fields() -> None:
    record = logging.LogRecord("fairlead.http", logging.INFO, "", 0, "took %d ms", (3,), None)
    record.created = 1_767_225_600.25
    record.fields = {"job": "0a"}
    assert line(record) == {
        "time": "2026-01-01T00:00:00.250Z",
        "level": "INFO",
        "logger": "fairlead.http",
        "message": "took 3 ms",
        "job": "0a",
    }


def test_a_log_line_of_a_failure_has_its_traceback() -> None:
    try:
        raise ValueError("odd")
    except ValueError as error:
        failure = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("fairlead", logging.ERROR, "", 0, "failed", None, failure)
    assert "ValueError: odd" in str(line(record)["exception"])


def test_the_fields_of_a_line_about_jobs_and_runs() -> None:
    job_id = "0" * 28
    assert json_logging.run_fields(f"{job_id}-3")["fields"] == {"jobId": job_id, "run": 3}
    assert json_logging.run_fields("odd")["fields"] == {"run": "odd"}
    assert json_logging.job_set_fields("q", "s")["fields"] == {"queue": "q", "jobSet": "s"}
    assert json_logging.job_set_fields("q", "")["fields"] == {"queue": "q"}
    many = json_logging.runs_fields(f"{job_id}-{run}" for run in range(1_000))["fields"]["runs"]
    assert many == [f"{job_id}-{run}" for run in range(json_logging.NAMED_MAX)]


async def test_what_is_logged_during_a_request_about_a_job_names_the_job() -> None:
    router = APIRouter()
    lines = []

    @router.get("/problems/jobs/{job}/logs")
    async def route(job: str) -> None:
        record = logging.LogRecord("fairlead", logging.INFO, "", 0, "here", None, None)
        lines.append(line(record))

    app = server.build_app("test", [router], {}, Settings())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for job in ("0" * 28, "not-an-id"):
            await client.get(f"/problems/jobs/{job}/logs")
    assert lines[0]["jobId"] == "0" * 28
    assert "jobId" not in lines[1]


async def test_what_is_logged_during_a_request_names_it_and_its_trace() -> None:
    router = APIRouter()
    lines = []

    @router.get("/problems/x")
    async def route() -> None:
        record = logging.LogRecord("fairlead", logging.INFO, "", 0, "here", None, None)
        lines.append(line(record))

    app = server.build_app("test", [router], {}, Settings())
    transport = httpx2.ASGITransport(app=app)
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"X-Request-Id": "r1", "traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await client.get("/problems/x", headers=headers)
        await client.get("/problems/x", headers={"traceparent": "odd"})
    assert (lines[0]["request"], lines[0]["trace"]) == ("r1", trace)
    assert "trace" not in lines[1]
