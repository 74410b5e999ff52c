"""Where compiled kernels are stored: a folder per source, checkout, processor and compiler.

numba only checks the file of a kernel itself, and would continue to use old versions of kernels
that it calls. It finds a stored kernel only for a file at the same path and a processor with the
same features, so a folder of one checkout or machine is of no use to another. Nothing here imports
numba, because this is needed before numba is imported.
"""

import functools
import hashlib
import importlib.util
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).absolute().parent.parent
_SOURCES: Final = _PACKAGE / "engine"
_CONSTANTS: Final = _PACKAGE / "domain"
"""What kernels use that is not in the engine."""


def folder() -> Path | None:
    """The folder: below NUMBA_CACHE_DIR, else beside the sources; None if neither can be
    written."""
    parent = os.environ.get("NUMBA_CACHE_DIR", "")
    if not parent and os.access(_SOURCES, os.W_OK):
        parent = str(_SOURCES / "__pycache__")
    return Path(parent) / f"engine-{_digest()}" if parent else None


def has_compiler() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def _digest() -> str:
    digest = hashlib.sha256(repr((str(_SOURCES), *_target())).encode())
    for source in sorted([*_SOURCES.rglob("*.py"), *_CONSTANTS.rglob("*.py")]):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _target() -> tuple[str, ...]:
    """What machine code depends on, beside the source."""
    if not has_compiler():
        return ()
    from llvmlite import binding  # comes with numba, and loads in a fraction of its time

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    cpu = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or binding.get_host_cpu_features().flatten()
    checks = os.environ.get("NUMBA_BOUNDSCHECK", "")
    return python, version("numba"), cpu, features, checks
