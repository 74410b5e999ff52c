"""Chance that depends on the seed and on what is drawn for, never on the order of drawing. Pure."""

import hashlib
import math

from fairlead_common.domain.ids import JobId


class Chance:
    """Draws for a job (and one of its runs) that are the same in every simulation of one seed."""

    def __init__(self, seed: int) -> None:
        self._key = hashlib.blake2b(str(seed).encode(), digest_size=32).digest()

    def uniform(self, job_id: JobId | str, what: str, run: int = 0) -> float:
        """At least 0 and below 1."""
        text = f"{job_id}\0{what}\0{run}".encode()
        digest = hashlib.blake2b(text, digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "big") >> 11) / (1 << 53)

    def exponential(self, mean: float, job_id: JobId | str, what: str) -> float:
        """At least 0, of this mean."""
        return -mean * math.log1p(-self.uniform(job_id, what))
