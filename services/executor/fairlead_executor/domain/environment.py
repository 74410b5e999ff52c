"""What a run finds in its environment that only its executor knows. Pure."""

from typing import Final

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.leases import Lease

LABEL: Final = "FAIRLEAD_GANG_UNIFORMITY_LABEL"


def add_node_environment(lease: Lease, node: Node | None) -> Lease:
    """The lease with the name of its node, and the value there of the label of its gang."""
    known = {**lease.env, "FAIRLEAD_NODE": lease.node}
    label = lease.env.get(LABEL)
    if label is not None and node is not None and label in node.labels:
        known["FAIRLEAD_GANG_UNIFORMITY_VALUE"] = node.labels[label]
    return msgspec.structs.replace(lease, env=known)
