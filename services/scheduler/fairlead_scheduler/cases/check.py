"""Compares the results of a round with the expected results of its case."""

from collections.abc import Mapping
from typing import Final

from msgspec import UnsetType

from fairlead_scheduler.cases.case_file import Expect, expand
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.cases.outcome import RoundResult

SHARES_DIFFER: Final = 1e-4


def find_differences(world: World, decided: RoundResult, expect: Expect) -> list[str]:
    """The differences between the results of a round and the expected results."""
    found: list[str] = []

    def compare(what: str, expected: object, got: object) -> None:
        if expected != got:
            found.append(f"{what}: expected {expected}, got {got}")

    for what, names, got in (
        ("scheduled", expect.scheduled, set(decided.placed)),
        ("preempted", expect.preempted, set(decided.preempted)),
        ("queued", expect.queued, world.queued()),
    ):
        if names is not None:
            compare(what, sorted(expand(names)), sorted(got))
    for what, count, number in (
        ("scheduledCount", expect.scheduled_count, len(decided.placed)),
        ("preemptedCount", expect.preempted_count, len(decided.preempted)),
    ):
        if count is not None:
            compare(what, count, number)
    running = world.running()
    for queue, count in expect.running.items():
        compare(f"running of {queue}", count, running.get(queue, 0))
    for name, node in _expand_keys(expect.on_node).items():
        compare(f"node of {name}", node, world.get_node_of(name))
    for name, code in _expand_keys(expect.reasons).items():
        compare(f"reason of {name}", code, decided.waiting.get(name))
    for name, part in _expand_keys(expect.sentences).items():
        sentence = decided.sentences.get(name, "")
        if part not in sentence:
            found.append(f"sentence of {name}: expected {part!r} in {sentence!r}")
    for name, cause in _expand_keys(expect.causes).items():
        compare(f"cause of {name}", cause, decided.preempted.get(name, {}).get("cause"))
    for name, preemptor in _expand_keys(expect.preempted_for).items():
        compare(f"preemptor of {name}", preemptor, decided.preempted.get(name, {}).get("for"))
    for name, code in _expand_keys(expect.rejected).items():
        compare(f"rejection of {name}", code, decided.rejected.get(name))
    for name, code in _expand_keys(expect.failed).items():
        compare(f"failure of {name}", code, decided.failed.get(name))
    apart = {} if isinstance(decided.hops, UnsetType) else decided.hops
    for name, hops in expect.hops.items():
        compare(f"hops of {name}", hops, apart.get(name))
    for queue, values in expect.shares.items():
        for share in values.__struct_fields__:
            value = getattr(values, share)
            got_share = decided.shares.get(queue, {}).get(share, 0.0)
            if value is not None and abs(got_share - value) > SHARES_DIFFER:
                found.append(f"{share} share of {queue}: expected {value}, got {got_share:.5f}")
    return found + _compare_nodes(world, expect)


def _compare_nodes(world: World, expect: Expect) -> list[str]:
    found = []
    for names in expect.same_node:
        nodes = {world.get_node_of(name) for name in expand(names)} - {None}
        if len(nodes) > 1:
            found.append(f"{names} should be on one node, they are on {sorted(map(str, nodes))}")
    if expect.same_label is not None:
        jobs, label = expand(expect.same_label.jobs), expect.same_label.label
        placed = [node for name in jobs if (node := world.get_node_of(name)) is not None]
        values = {world.node(node).labels.get(label) for node in placed}
        if len(values) > 1:
            found.append(f"{jobs} should share one {label}, they are on {values}")
    return found


def _expand_keys(expected: Mapping[str, str]) -> dict[str, str]:
    return {name: value for key, value in expected.items() for name in expand([key])}
