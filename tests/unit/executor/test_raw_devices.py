"""Which devices are closed to the runs of an executor that is root."""

import os
import secrets
import stat
from pathlib import Path

import pytest

from fairlead_executor.confinement import child

NULL = os.makedev(1, 3)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_shared_memory_is_not_searched() -> None:
    """Tests and other programs make and remove thousands of files there."""
    device = Path("/dev/shm", f"sg-{secrets.token_hex(4)}")
    os.mknod(device, stat.S_IFCHR | 0o600, NULL)
    try:
        assert str(device) not in set(child.find_raw_devices())
    finally:
        device.unlink()
