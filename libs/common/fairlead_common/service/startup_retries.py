"""How a process that starts waits for a server that is not there yet."""

import logging
from typing import Final

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_delay,
    wait_fixed,
)

PAUSE_S: Final = 0.5


def until_available(
    server: str, errors: tuple[type[Exception], ...], within_s: float, logger: logging.Logger
) -> AsyncRetrying:
    """Calls again every `PAUSE_S` after one of these errors, and logs the first one.

    `server` begins the logged sentence. The error of the last call is raised after `within_s`.
    """

    def log_first(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            logger.warning(
                "%s is unavailable; waiting for it: %s", server, state.outcome.exception()
            )

    return AsyncRetrying(
        retry=retry_if_exception_type(errors),
        wait=wait_fixed(PAUSE_S),
        stop=stop_after_delay(within_s),
        before_sleep=log_first,
        reraise=True,
    )
