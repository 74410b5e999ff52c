"""The environment of runs in the names that Armada's jobs look for. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_common.domain.records.leases import Lease

OURS: Final = "FAIRLEAD_"
THEIRS: Final = "ARMADA_"
OTHER_NAMES: Final[Mapping[str, str]] = {
    "FAIRLEAD_GANG_UNIFORMITY_LABEL": "ARMADA_GANG_NODE_UNIFORMITY_LABEL_NAME",
    "FAIRLEAD_GANG_UNIFORMITY_VALUE": "ARMADA_GANG_NODE_UNIFORMITY_LABEL_VALUE",
    "FAIRLEAD_GANG_NAME": "ARMADA_GANG_ID",
    "FAIRLEAD_GANG_SIZE": "ARMADA_GANG_CARDINALITY",
    "FAIRLEAD_GANG_MIN_SIZE": "ARMADA_GANG_MINIMUM_CARDINALITY",
}
"""Names that differ; all others differ only in their prefix."""


def add_armada_names(lease: Lease) -> Lease:
    """The lease, whose run gets each variable of Fairlead under both names."""
    also = {
        OTHER_NAMES.get(name, name.replace(OURS, THEIRS, 1)): text
        for name, text in lease.env.items()
        if name.startswith(OURS)
    }
    return msgspec.structs.replace(lease, env={**also, **lease.env})
