"""What a run is told that only its executor knows."""

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.domain import environment

NODE = Node(executor="e", name="n", allocatable={}, labels={"rack": "r7"})


def told(label: str | None, node: Node | None) -> dict[str, str]:
    env = {} if label is None else {environment.LABEL: label}
    lease = Lease(job_id=JobId("j"), run=1, queue="q", job_set="s", node="n", env=env)
    return environment.add_node_environment(lease, node).env


def test_a_run_gets_the_name_of_its_node() -> None:
    assert told(None, NODE) == told(None, None) == {"FAIRLEAD_NODE": "n"}


def test_a_gang_member_gets_the_value_of_the_uniformity_label() -> None:
    assert told("rack", NODE)["FAIRLEAD_GANG_UNIFORMITY_VALUE"] == "r7"
    assert "FAIRLEAD_GANG_UNIFORMITY_VALUE" not in told("row", NODE)
    assert "FAIRLEAD_GANG_UNIFORMITY_VALUE" not in told("rack", None)
