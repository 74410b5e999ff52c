"""Random numbers that depend on the seed and the job, not on the order of the draws. Pure."""

import hashlib
import math

from fairlead_common.domain.ids import JobId


class RandomDraws:
    """Random numbers of a job or run; the same in every simulation with the same seed."""

    def __init__(self, seed: int) -> None:
        self._key = hashlib.blake2b(str(seed).encode(), digest_size=32).digest()

    def uniform(self, job_id: JobId | str, what: str, run: int = 0) -> float:
        """A uniformly distributed number in [0, 1)."""
        text = f"{job_id}\0{what}\0{run}".encode()
        digest = hashlib.blake2b(text, digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "big") >> 11) / (1 << 53)

    def exponential(self, mean: float, job_id: JobId | str, what: str) -> float:
        """An exponentially distributed number with this mean."""
        return -mean * math.log1p(-self.uniform(job_id, what))
