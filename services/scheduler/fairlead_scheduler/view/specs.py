"""What was submitted, for the leases of jobs that start and for filters by label.

Until a checkpoint holds it, a submission stays in the message in which it came; then it is kept by
itself, and only to spare look-ups.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from fairlead_common.events import JobSubmitted
from fairlead_common.ids import JobId

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(JobSubmitted)


class Specs:
    """Submissions by job. `fresh` holds at most what the log carried since the last checkpoint."""

    def __init__(self) -> None:
        self.fresh: dict[JobId, JobSubmitted | bytes] = {}
        """Not saved yet: the submission, or a message that holds it and other submissions only."""
        self.saved: dict[JobId, bytes] = {}
        """Some of those that are, oldest first, encoded."""

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self.fresh or job_id in self.saved

    def of(self, ids: Iterable[JobId]) -> dict[JobId, JobSubmitted]:
        """The submissions of jobs that are here."""
        found: dict[JobId, JobSubmitted] = {}
        inside: dict[JobId, bytes] = {}
        for job_id in ids:
            kept = self.fresh.get(job_id)
            if kept is None:
                found[job_id] = _decoder.decode(self.saved[job_id])
            elif isinstance(kept, JobSubmitted):
                found[job_id] = kept
            else:
                inside[job_id] = kept
        for job_id, encoded in _taken_out(inside):
            found[job_id] = _decoder.decode(encoded)
        return found

    def drop(self, job_id: JobId) -> None:
        """The job ended."""
        if self.fresh.pop(job_id, None) is None:
            self.saved.pop(job_id, None)

    def save(self, unless: Collection[JobId] = ()) -> list[tuple[JobId, bytes]]:
        """All that were not saved are now, but for these jobs; returns them, encoded."""
        made: list[tuple[JobId, bytes]] = []
        inside: dict[JobId, bytes] = {}
        for job_id, kept in self.fresh.items():
            if job_id in unless:
                continue
            if isinstance(kept, JobSubmitted):
                made.append((job_id, _encoder.encode(kept)))
            else:
                inside[job_id] = kept
        made += [(job_id, bytes(encoded)) for job_id, encoded in _taken_out(inside)]
        self.fresh = {job_id: self.fresh[job_id] for job_id in unless if job_id in self.fresh}
        self.saved.update(made)
        return made

    def looked_up(self, found: Mapping[JobId, bytes]) -> None:
        """Take up what the checkpoint holds."""
        self.saved.update(found)

    def keep(self, bound: int) -> None:
        """Forget the oldest that are saved, beyond `bound`."""
        for job_id in list(islice(self.saved, max(0, len(self.saved) - bound))):
            del self.saved[job_id]


class _Message(msgspec.Struct):
    """A message of submissions, each as it is written there."""

    events: list[msgspec.Raw]


class _Named(msgspec.Struct, rename="camel"):
    """Whose submission it is."""

    job_id: JobId


_messages: Final = msgspec.json.Decoder(_Message)
_names: Final = msgspec.json.Decoder(_Named)


def _taken_out(inside: Mapping[JobId, bytes]) -> Iterator[tuple[JobId, msgspec.Raw]]:
    """Each of these jobs with its submission, encoded. `inside`: the message that holds it."""
    for message in {id(message): message for message in inside.values()}.values():
        for encoded in _messages.decode(message).events:
            job_id = _names.decode(encoded).job_id
            if job_id in inside:
                yield job_id, encoded
