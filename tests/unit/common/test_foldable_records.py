"""Whatever can be decoded can be folded: no strange but decodable record ends a fold."""

import json
from pathlib import Path
from typing import Any, Final

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairlead_common.domain.ids import partition_of_job
from fairlead_common.domain.records import decoders
from fairlead_common.domain.records.decoders import Undecodable
from fairlead_common.log import Entry
from fairlead_lookout.domain.model import Message
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.view import View
from tests.example_numbers import EXAMPLES
from tests.unit.lookout.builders import PlainView

GOLDEN: Final = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "events.jsonl").read_text().splitlines()
]
SUBMITTED: Final = next(each for each in GOLDEN if each["type"] == "jobSubmitted")
JOB: Final = SUBMITTED["jobId"]
PARTITION: Final = partition_of_job(JOB)
STRANGE: Final = st.one_of(
    st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**53, 2**62, 2**63, 2**64, 0.5, 1e308]),
    st.sampled_from(["", "/", "a/b", "\u2603", "x" * 5_000, "-", "0", "\n", JOB, None, True]),
    st.sampled_from([[], {}, [JOB], [""], {"": ""}, {"requests": {}}, {"requests": {"": 0}}]),
    st.text(max_size=20),
    st.integers(),
)


def _changed(event: dict[str, Any], changes: list[tuple[int, Any]]) -> dict[str, Any]:
    """The event with other values in some fields; it stays about the job of the golden lines."""
    made = dict(event)
    fields = [name for name in made if name not in ("type", "jobId")]
    for number, value in changes:
        if fields:
            made[fields[number % len(fields)]] = value
    return made


_events = st.builds(
    _changed,
    st.sampled_from(GOLDEN),
    st.lists(st.tuples(st.integers(0, 30), STRANGE), max_size=2),
)


@settings(max_examples=EXAMPLES or 120)
@given(st.lists(st.lists(_events, min_size=1, max_size=3), min_size=1, max_size=4))
def test_what_can_be_decoded_can_be_folded(history: list[list[dict[str, Any]]]) -> None:
    entries = []
    for number, events in enumerate([[SUBMITTED], *history]):
        value = {"queue": "q", "jobSet": "s", "by": "x", "events": events}
        entry = Entry(PARTITION, number, "q/s", json.dumps(value).encode(), 1_700_000_000_000)
        try:
            sequence = decoders.decode_jobs(entry)
        except Undecodable:
            continue
        entries.append((entry, Message(PARTITION, number, entry.time_ms, sequence)))
    assume(len(entries) > 1)
    view, plain = View(), PlainView()
    job_fold.fold_messages(view, job_fold.decode_batch([entry for entry, _ in entries]), {})
    for _, message in entries:
        plain.fold(message)
