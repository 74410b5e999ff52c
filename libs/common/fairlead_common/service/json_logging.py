"""Log output: one JSON object per line on stderr, with the id of the request."""

import logging
from collections.abc import Iterable
from contextvars import ContextVar
from itertools import islice
from typing import Final

import msgspec

from fairlead_common.domain import ids, timestamps

REQUEST_FIELDS: Final[ContextVar[dict[str, str]]] = ContextVar("request_fields")
"""Fields of every line that is logged while a request is answered: its id, its trace, and the job
that its path names."""


NAMED_MAX: Final = 20
"""Runs or job sets that one line names."""


def run_fields(run: str) -> dict[str, dict[str, object]]:
    """The argument `extra` of a line about a run: `jobId` and `run`.

    If the run id is not valid, `run` is its text.
    """
    fields: dict[str, object] = {}
    try:
        fields["jobId"], fields["run"] = ids.parse_run_id(run)
    except ValueError:
        fields["run"] = run
    return {"fields": fields}


def runs_fields(runs: Iterable[str]) -> dict[str, dict[str, object]]:
    """The argument `extra` of a line about several runs: `runs` has the ids of the first ones."""
    return {"fields": {"runs": list(islice(runs, NAMED_MAX))}}


def job_sets_fields(keys: Iterable[str]) -> dict[str, dict[str, object]]:
    """The argument `extra` of a line about several job sets, named `queue/job set`."""
    return {"fields": {"jobSets": list(islice(dict.fromkeys(keys), NAMED_MAX))}}


def job_set_fields(queue: str, job_set: str) -> dict[str, dict[str, object]]:
    """The argument `extra` of a line about a job set; without what is empty."""
    named = {"queue": queue, "jobSet": job_set}
    return {"fields": {name: text for name, text in named.items() if text}}


class JsonFormatter(logging.Formatter):
    """Formats a log record as JSON, with the record's own `fields` if it has any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, object] = {
            "time": timestamps.rfc3339(round(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **REQUEST_FIELDS.get({}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up_logging(level: str) -> None:
    """Send all log records to stderr as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
