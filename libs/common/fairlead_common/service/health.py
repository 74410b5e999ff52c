"""Health checks of a service. Separate from `web.server`, which takes long to import."""

from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Final

Check = Callable[[], Awaitable[str | None]]
"""Returns None if the part is ready, else a sentence about what is wrong. `Degraded`: the service
is ready nevertheless."""

VERSION: Final = metadata.version("fairlead-common")
"""The version of all services of this installation."""


class Degraded(str):
    """A warning about a service that is ready nevertheless."""
