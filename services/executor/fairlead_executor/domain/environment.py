"""Environment variables of a run that only its executor can set. Pure."""

from typing import Final

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.leases import Lease

LABEL: Final = "FAIRLEAD_GANG_UNIFORMITY_LABEL"


MASTER_ADDRESS: Final = "MASTER_ADDR"


def add_master_address(lease: Lease, address: str | None) -> Lease:
    """The lease with the address at which the members of its group meet, if it is known.

    The master itself finds its own address there, which only its cluster knows.
    """
    if not address:
        return lease
    return msgspec.structs.replace(lease, env={**lease.env, MASTER_ADDRESS: address})


def is_master(lease: Lease) -> bool:
    """Whether the other members of its group meet at this run."""
    member = lease.member
    return member is not None and member.master == (member.role, member.index)


def add_node_environment(lease: Lease, node: Node | None) -> Lease:
    """The lease with the name of its node, and the value there of the label of its gang."""
    known = {**lease.env, "FAIRLEAD_NODE": lease.node}
    label = lease.env.get(LABEL)
    if label is not None and node is not None and label in node.labels:
        known["FAIRLEAD_GANG_UNIFORMITY_VALUE"] = node.labels[label]
    return msgspec.structs.replace(lease, env=known)
