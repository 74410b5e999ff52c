"""Logs of pods: parts of them, and the end of huge ones."""

from collections.abc import Sequence

import pytest

from fairlead_executor.backends.kubernetes import pod_logs
from fairlead_executor.domain.pods import Phase, Pod
from fairlead_executor.domain.run_logs import NoLog, Stream
from tests.unit.executor.kubernetes.conftest import FakeWorld


def runs(pod: Pod) -> bool:
    return pod.phase is Phase.RUNNING


async def test_a_part_of_the_log_of_a_container_can_be_asked_for(world: FakeWorld) -> None:
    await world.open()
    run = world.create()
    await world.until_pod(run, runs)
    assert await world.read_log(run, since_bytes=5) == b"second\n"
    assert await world.read_log(run, container="sidecar") == b"sidecar\nsecond\n"
    with pytest.raises(NoLog, match="request stdout"):
        await world.read_log(run, stream=Stream.STDERR)


@pytest.mark.parametrize(
    "lines",
    [
        [b"%063d\n" % number for number in range(100_000)],
        [b"\n"] * 100_000,
        [b"x" * pod_logs.LINE_BYTES_MAX] * 1_000,  # parts of one line
        [b"short\n"] * 60_000 + [b"%0999d\n" % number for number in range(3_000)],
        [b"x" * pod_logs.LINE_BYTES_MAX] * 500 + [b"last\n"],
    ],
    ids=["lines", "empty lines", "one long line", "longer at the end", "shorter at the end"],
)
async def test_the_end_of_a_huge_log_is_read_within_bounds(
    world: FakeWorld, lines: Sequence[bytes]
) -> None:
    await world.open()
    run = world.create()
    await world.until_pod(run, runs)
    world.server.log_lines = lines
    data, is_cut = await world.read_log_end(run, 1 << 20)
    whole = b"".join(lines)
    assert is_cut == (len(data) < len(whole))
    assert 1 << 14 <= len(data) <= 1 << 20
    assert whole.endswith(data)
    assert await world.read_log_end(run, 1 << 20, lines_max=1) == (lines[-1], True)


async def test_a_log_whose_last_lines_are_too_long_is_refused_with_the_reason(
    world: FakeWorld,
) -> None:
    await world.open()
    run = world.create()
    await world.until_pod(run, runs)
    world.server.log_lines = [b"first\n", b"x" * (2 << 20)]
    with pytest.raises(NoLog, match="more than 1,024 KiB as the last 64 lines"):
        await world.read_log_end(run, 1 << 20)


async def test_a_server_that_sends_more_than_was_requested_is_not_read_to_the_end(
    world: FakeWorld,
) -> None:
    await world.open()
    run = world.create()
    await world.until_pod(run, runs)
    world.server.log_is_endless = True
    with pytest.raises(NoLog, match="more than 1,024 KiB"):
        await world.read_log_end(run, 1 << 20)
