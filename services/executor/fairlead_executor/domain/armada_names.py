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
"""What has another word there; all else differs in its beginning alone."""


def add_armada_names(lease: Lease) -> Lease:
    """The lease with everything that Fairlead tells a run said in both names."""
    also = {
        OTHER_NAMES.get(name, name.replace(OURS, THEIRS, 1)): text
        for name, text in lease.env.items()
        if name.startswith(OURS)
    }
    return msgspec.structs.replace(lease, env={**also, **lease.env})
