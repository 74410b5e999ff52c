"""The submissions of live jobs, for the leases of jobs that start and for filters by label.

Until it is in Postgres, a submission stays in its encoded message. A message is split when the
first of its submissions is needed, for a lease or a save; the parts refer to it, so that there is
never a second copy. The newest submissions also stay decoded, because many jobs start soon after
they are submitted. Submissions are saved in parts of bounded size, oldest first, before the
checkpoint moves past them; they never change, so saving one early is safe. Some of the saved ones
stay in memory as a cache.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records.events import JobSubmitted

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(JobSubmitted)


CACHED_MAX: Final = 50_000
"""Specs of saved jobs that stay in memory, so that most leases need no look-up."""

SPECS_PER_SAVE_MAX: Final = 25_000
"""Submissions that are saved together."""

SPECS_UNSAVED_MAX: Final = 75_000
"""Submissions that wait in memory for the next checkpoint, about 50 MB. Beyond it the oldest are
saved ahead of it. Those of jobs that end before the checkpoint are then never written."""


class _Events(msgspec.Struct):
    """The events of a message, each as it is written there."""

    events: list[msgspec.Raw]


_message_decoder: Final = msgspec.json.Decoder(_Events)


class SubmissionMessage:
    """An encoded message that has only submissions, which can also be there decoded."""

    def __init__(self, value: bytes, decoded: Sequence[JobSubmitted] = ()) -> None:
        """`decoded`: all of its submissions, or none."""
        self._value = value
        self._parts: list[msgspec.Raw] = []
        self.decoded = decoded

    def decode(self, index: int) -> JobSubmitted:
        """The submission with this index."""
        return self.decoded[index] if self.decoded else _decoder.decode(self.encoded(index))

    def encoded(self, index: int) -> msgspec.Raw:
        """The submission with this index as it is written in the message."""
        if not self._parts:
            self._parts = _message_decoder.decode(self._value).events
        return self._parts[index]


DECODED_MAX: Final = 10_000
"""Submissions that stay decoded, about 1 kB each."""


MessagePlace = tuple[SubmissionMessage, int]
"""A message and the index of a submission in it."""


class Specs:
    """The submissions (`JobSubmitted`) of live jobs, each with its pod spec."""

    def __init__(self) -> None:
        self.unsaved: dict[JobId, JobSubmitted | MessagePlace] = {}
        """Not saved yet: the submission, or its place in a message."""
        self.saving: dict[JobId, JobSubmitted | MessagePlace] = {}
        """Submissions that are being saved, in the form of `unsaved`."""
        self.saved: dict[JobId, bytes] = {}
        """Some saved submissions, oldest first, encoded."""
        self._with_decoded: deque[SubmissionMessage] = deque()
        """The messages whose submissions are there decoded, oldest first."""
        self._decoded = 0
        """How many submissions these are."""

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self.unsaved or job_id in self.saving or job_id in self.saved

    def add_messages(
        self,
        places: Mapping[JobId, JobSubmitted | MessagePlace],
        messages: Sequence[SubmissionMessage],
    ) -> None:
        """Add the submissions of new jobs, and the messages that have them."""
        self.unsaved.update(places)
        self._with_decoded += messages
        self._decoded += sum([len(message.decoded) for message in messages])
        while self._decoded > DECODED_MAX:
            oldest = self._with_decoded.popleft()
            self._decoded -= len(oldest.decoded)
            oldest.decoded = ()

    def find_missing(self, ids: Iterable[JobId]) -> list[JobId]:
        """Those of these jobs whose submission is not in memory."""
        unsaved, saving, saved = self.unsaved, self.saving, self.saved
        return [
            job_id
            for job_id in ids
            if job_id not in unsaved and job_id not in saving and job_id not in saved
        ]

    def get_all(self, ids: Iterable[JobId]) -> dict[JobId, JobSubmitted]:
        """The submissions of those jobs whose submission is in memory."""
        found: dict[JobId, JobSubmitted] = {}
        for job_id in ids:
            unsaved = self.unsaved.get(job_id) or self.saving.get(job_id)
            if unsaved is None:
                found[job_id] = _decoder.decode(self.saved[job_id])
            elif isinstance(unsaved, JobSubmitted):
                found[job_id] = unsaved
            else:
                message, index = unsaved
                found[job_id] = message.decode(index)
        return found

    def drop(self, ids: Iterable[JobId]) -> None:
        """Drop the submissions of jobs that ended."""
        unsaved, saving, saved = self.unsaved, self.saving, self.saved
        for job_id in ids:
            if unsaved.pop(job_id, None) is None:
                saving.pop(job_id, None)
                saved.pop(job_id, None)

    def begin_save(
        self, count_max: int | None = None, cached_max: int = CACHED_MAX
    ) -> "SpecsSave | None":
        """Start to save the oldest `count_max` unsaved ones (default: all); None if all are saved.

        The newest `cached_max` stay in memory. Call `end_save` when all of it is saved.
        """
        assert not self.saving, "the last save has not ended"
        if not self.unsaved:
            return None
        if count_max is None or len(self.unsaved) <= count_max:
            self.saving, self.unsaved = self.unsaved, {}
        else:
            oldest = list(islice(self.unsaved, count_max))
            self.saving = {job_id: self.unsaved.pop(job_id) for job_id in oldest}
        return SpecsSave(self, len(self.saving) + len(self.unsaved) - cached_max)

    def encode_saving(self, dropped: int) -> Iterator[tuple[JobId, bytes]]:
        """The submissions that are being saved; all but the oldest `dropped` stay in memory."""
        for number, job_id in enumerate(list(self.saving)):
            submission = self.saving.get(job_id)
            if submission is None:  # it ended since
                continue
            if isinstance(submission, JobSubmitted):
                saved = _encoder.encode(submission)
            else:
                message, index = submission
                saved = bytes(message.encoded(index))
            if number >= dropped:
                self.saved[job_id] = saved
            yield job_id, saved

    def end_save(self) -> None:
        """End the save: the submissions are in Postgres now."""
        self.saving = {}

    def forget_saved(self, unsaved: Collection[JobId]) -> None:
        """Drop the unsaved submissions except these: another process has saved the others."""
        self.unsaved = {
            job_id: self.unsaved[job_id] for job_id in unsaved if job_id in self.unsaved
        }

    def add_saved(self, found: Mapping[JobId, bytes]) -> None:
        """Add submissions from the checkpoint."""
        self.saved.update(found)

    def trim_saved(self, bound: int) -> None:
        """Drop the oldest saved submissions beyond `bound`."""
        for job_id in list(islice(self.saved, max(0, len(self.saved) - bound))):
            del self.saved[job_id]


class SpecsSave:
    """Submissions, encoded again at each iteration: a save can be repeated."""

    def __init__(self, specs: Specs, dropped: int) -> None:
        self._specs = specs
        self._dropped = dropped

    def __iter__(self) -> Iterator[tuple[JobId, bytes]]:
        return self._specs.encode_saving(self._dropped)
