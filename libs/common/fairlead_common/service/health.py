"""Health checks of a service. Separate from `web.server`, which takes long to import."""

from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Final

Check = Callable[[], Awaitable[str | None]]
"""None when well, else a sentence that says what is not ready; a `Degraded` one is only shown."""

VERSION: Final = metadata.version("fairlead-common")
"""Of all services of this installation."""


class Degraded(str):
    """A warning about a service that is ready nevertheless."""
