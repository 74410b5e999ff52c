"""Ids of public events."""

import pytest

from fairlead_lookout.domain import public_events


@pytest.mark.parametrize(
    "text",
    ["", "-", "1", "1-", "-1", "1--1", "a-1-1", "1-1", "1-1-1-1", "1-1-" + "9" * 40, "1-1-٣"],
)
def test_an_invalid_event_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the id of an event"):
        public_events.parse_id(text)
