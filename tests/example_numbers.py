"""How many random examples a property tries."""

import os
from typing import Final

EXAMPLES: Final = int(os.environ.get("FAIRLEAD_EXAMPLES", "0"))
"""Of each property; 0: as few as the property says."""
