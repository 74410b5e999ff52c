"""`python -m fairlead_scheduler.cases`."""

import os
import sys

from fairlead_scheduler.kernels import compilation


def main() -> int:
    """Run with compiled kernels only if they exist: compiling takes longer than all cases."""
    compilation.choose_kernels(os.environ)
    from fairlead_scheduler.cases import case_runner  # imports numba, if it is to be used

    try:
        code = case_runner.main()
        sys.stdout.flush()
    except BrokenPipeError:  # as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
