"""What a service logs: a JSON object a line on stderr, with the request that it is about."""

import logging
from contextvars import ContextVar
from typing import Final

import msgspec

from fairlead_common.domain import timestamps

REQUEST_FIELDS: Final[ContextVar[dict[str, str]]] = ContextVar("about")
"""Fields of every line that is logged while a request is answered: its id, and its trace."""


class JsonFormatter(logging.Formatter):
    """Writes records; a record may have `fields` of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
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
    """Let everything that is logged be such lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
