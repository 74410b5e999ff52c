"""Ids that were accepted lately are known before the view shows them."""

import pytest

from fairlead_submit.domain import recent_ids
from fairlead_submit.domain.recent_ids import Accepted, IdConflict, RecentIds


def test_an_id_is_known_for_a_minute_and_forgotten_after_three() -> None:
    recent = RecentIds()
    recent.add({"a": "1"}, {3: 8}, 100.0)
    for now_s in (100.0, 100.0 + recent_ids.RECENT_S):
        assert recent.find(["a", "b"], now_s) == {"a": Accepted("1", {3: 8})}
    assert not recent.find(["a"], 100.0 + 3 * recent_ids.RECENT_S)


def test_ids_are_forgotten_after_a_long_silence() -> None:
    recent = RecentIds()
    recent.add({"a": "1"}, {}, 100.0)
    assert not recent.find(["a"], 100.0 + 2 * recent_ids.RECENT_S)


def test_the_number_of_ids_is_limited() -> None:
    recent = RecentIds()
    ids = [str(number) for number in range(5 * recent_ids.IDS_MAX)]
    for each in ids:
        recent.add({each: ""}, {}, 0.0)
    found = recent.find(ids, 0.0)
    assert len(found) <= 2 * recent_ids.IDS_MAX
    assert set(ids[-recent_ids.IDS_MAX :]) <= found.keys()


def test_a_different_job_is_refused_while_the_first_is_appended_and_afterwards() -> None:
    recent = RecentIds()
    with recent.claim({"a": "1", "b": "1"}, 0.0):
        assert not recent.find(["a"], 0.0)
        with recent.claim({"a": "1"}, 0.0):
            pass
        with pytest.raises(IdConflict) as refused, recent.claim({"a": "2", "c": "2"}, 0.0):
            pytest.fail("the ids were free")
        assert refused.value.digests == {"a": "1"}
    recent.add({"a": "1", "b": "1"}, {}, 0.0)
    with pytest.raises(IdConflict), recent.claim({"b": "2"}, 0.0):
        pytest.fail("the id was free")


def test_an_append_that_fails_frees_its_ids() -> None:
    recent = RecentIds()
    with pytest.raises(RuntimeError), recent.claim({"a": "1"}, 0.0):
        raise RuntimeError("the log refused it")
    with recent.claim({"a": "2"}, 0.0):
        pass
