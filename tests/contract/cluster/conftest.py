"""`bed`: each kind of cluster in turn, opened; whatever still runs at the end is stopped."""

from collections.abc import AsyncIterator

import pytest

from fairlead_common.service import clock
from fairlead_executor.domain import pods
from tests.contract.cluster.beds import (
    Bed,
    FakeKubernetesBed,
    KubernetesBed,
    ProcessBed,
    SimulatedBed,
    until_run,
)
from tests.kubernetes_fixtures import control_plane, kubeconfig

__all__ = ["control_plane", "kubeconfig"]

LASTING = [
    "process",
    "kubernetes on a fake API server",
    pytest.param("kubernetes", marks=pytest.mark.kubernetes),
]
"""Clusters that outlive their executor."""


def make_bed(request: pytest.FixtureRequest) -> Bed:
    """The cluster of this kind. A control plane is started by the first test that needs it."""
    if request.param == "kubernetes":
        return KubernetesBed(request.getfixturevalue("kubeconfig"))
    if request.param == "kubernetes on a fake API server":
        return FakeKubernetesBed(request.getfixturevalue("tmp_path"))
    folder = request.getfixturevalue("tmp_path")
    return SimulatedBed(folder) if request.param == "simulated" else ProcessBed(folder)


@pytest.fixture(params=["simulated", *LASTING])
async def bed(request: pytest.FixtureRequest) -> AsyncIterator[Bed]:
    """One cluster."""
    async for each in opened(make_bed(request)):
        yield each


@pytest.fixture(params=["simulated", *LASTING[1:]])
async def returning_bed(request: pytest.FixtureRequest) -> AsyncIterator[Bed]:
    """A cluster whose nodes can return runs in tests."""
    async for each in opened(make_bed(request)):
        yield each


@pytest.fixture(params=LASTING)
async def lasting_bed(request: pytest.FixtureRequest) -> AsyncIterator[Bed]:
    """A cluster that outlives its executor."""
    async for each in opened(make_bed(request)):
        yield each


async def opened(a_bed: Bed) -> AsyncIterator[Bed]:
    """The bed open, and in the end empty and closed."""
    await a_bed.open()
    yield a_bed
    cluster = a_bed.cluster
    cluster.changes(clock.now_ms())
    for run, pod in list(cluster.pods.items()):
        if pod.live:
            cluster.stop(run, 0, pods.stopped("the test is over"))
            await until_run(cluster, run, lambda pod: not pod.live)
    cluster.remove(list(cluster.pods))
    await a_bed.clear()
    await a_bed.close()
