"""A process that warms up, plays many rounds, and prints each kernel that was compiled only then.

A scheduler that has to compile in the middle of a round stands still for seconds or minutes.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings

from fairlead_scheduler.kernels import compilation

compilation.choose_kernels(os.environ)

from fairlead_scheduler.cases import case_file  # noqa: E402
from fairlead_scheduler.cases.case_file import Case  # noqa: E402
from fairlead_scheduler.cases.case_runner import run_case  # noqa: E402
from fairlead_scheduler.kernels import warm_up  # noqa: E402  (what kernels are used is chosen before)
from tests.properties.engine.worlds import BOUNDED, cases  # noqa: E402
from tests.unit.simulate.simulations import job, simulate  # noqa: E402

CASES = Path(__file__).parents[2] / "cases"
LARGE = Path(__file__).with_name("large.yaml")


def signatures() -> Iterator[str]:
    """Every kernel of the engine with every kind of argument it was compiled for."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("fairlead_scheduler."):
            for made in vars(module).values():
                yield from _signatures(made)


def _signatures(made: Any) -> Iterator[str]:
    """Those of a dispatcher of numba, which has no types; nothing of anything else."""
    if hasattr(made, "py_func"):
        for signature in made.signatures:
            yield f"{made.py_func.__module__}.{made.py_func.__name__}{signature}"


@settings(BOUNDED, database=None)
@given(cases())
def random_worlds(case: Case) -> None:
    """Whatever hypothesis thinks of, the same in every run."""
    run_case(case)


def main() -> None:
    """Warm up, play, and say what was compiled late."""
    warm_up.run_warm_up_rounds()
    before = set(signatures())
    for file in (*sorted(CASES.rglob("*.yaml")), LARGE):
        for case in case_file.read_cases(file):
            run_case(case)
    random_worlds()
    simulate([job(f"j{number}", queue="abc"[number % 3]) for number in range(20)])
    for late in sorted(set(signatures()) - before):
        sys.stdout.write(f"{late}\n")


if __name__ == "__main__":
    main()
