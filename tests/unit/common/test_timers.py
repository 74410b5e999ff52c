"""Timers say what is due, and hold no more than what is set."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.timers import SPARE, Timers

KEYS = st.integers(0, 5)
TIMES = st.integers(0, 20)
STEPS = st.one_of(
    st.tuples(st.just("set"), TIMES, KEYS),
    st.tuples(st.just("unset"), st.just(0), KEYS),
    st.tuples(st.just("due"), TIMES, st.just(0)),
)


@given(st.lists(STEPS))
def test_timers_equal_a_dictionary_of_times(steps: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    plain: dict[int, int] = {}
    for step, at_ms, key in steps:
        if step == "set":
            timers.set([(at_ms, key)])
            plain[key] = at_ms
        elif step == "unset":
            timers.unset([key])
            plain.pop(key, None)
        else:
            due = sorted(key for key, time_ms in plain.items() if time_ms <= at_ms)
            assert sorted(timers.due(at_ms)) == due
            for each in due:
                del plain[each]
        assert len(timers) == len(plain)
        assert timers.next_ms() == min(plain.values(), default=None)


def test_due_keys_are_ordered_by_time() -> None:
    timers: Timers[str] = Timers()
    timers.set([(3, "c"), (1, "a"), (2, "b"), (9, "z")])
    assert timers.due(3) == ["a", "b", "c"]


def test_unset_times_are_removed() -> None:
    timers: Timers[int] = Timers()
    for key in range(10 * SPARE):
        timers.set([(1_000_000 + key, key)])
        timers.unset([key - 10])
    assert len(timers) == 10
    assert timers.held <= SPARE + 2 * len(timers)


def test_replaced_times_are_removed() -> None:
    timers: Timers[int] = Timers()
    for at_ms in range(10 * SPARE):
        timers.set([(1_000_000 + at_ms, 0)])
    assert timers.held <= SPARE + 2
    assert timers.next_ms() == 1_000_000 + 10 * SPARE - 1


def test_many_times_unset_at_once_are_removed() -> None:
    timers: Timers[int] = Timers()
    timers.set((1_000_000, key) for key in range(10 * SPARE))
    timers.unset(range(10 * SPARE))
    assert timers.held <= SPARE
    assert timers.next_ms() is None
