"""`python -m fairlead_scheduler.cases`."""

import sys

from fairlead_scheduler.cases.command import main

if __name__ == "__main__":
    sys.exit(main())
