"""Where compiled kernels are kept: a folder named after a digest of the engine's sources.

numba looks only at the file of a kernel itself, and would go on using old versions of the parts
that it calls. Nothing here imports numba, so that it can be asked before numba is.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).parent / "engine"


def folder() -> Path | None:
    """Below NUMBA_CACHE_DIR, else beside the sources; None where neither can be written."""
    parent = os.environ.get("NUMBA_CACHE_DIR", "")
    if not parent and os.access(_SOURCES, os.W_OK):
        parent = str(_SOURCES / "__pycache__")
    if not parent:
        return None
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes())
    return Path(parent) / f"engine-{digest.hexdigest()[:16]}"
