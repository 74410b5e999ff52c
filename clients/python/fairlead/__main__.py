"""The entry point of the `fairlead` command, also as `python -m fairlead`."""

import gc
import sys
from typing import Final

ALLOCATIONS_PER_COLLECTION: Final = 100_000
"""Python's own value is 700. With it a sixth of a short command is the search for garbage, although
imports make none."""


def main() -> None:
    """Run the command line and end with its exit code."""
    gc.set_threshold(ALLOCATIONS_PER_COLLECTION)
    from fairlead import cli

    code = cli.run(sys.argv[1:])
    gc.freeze()  # the memory is returned as a whole: nothing in it needs to be searched
    sys.exit(code)


if __name__ == "__main__":
    main()
