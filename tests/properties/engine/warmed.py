"""A process that warms up, plays many rounds, and prints each kernel that was compiled only then.

A scheduler that has to compile in the middle of a round stands still for seconds or minutes.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings

from fairlead_scheduler.cases import case_file
from fairlead_scheduler.cases.case_file import Case
from fairlead_scheduler.cases.case_runner import run_case
from fairlead_scheduler.engine.compiler.decorators import EntryPoint
from fairlead_scheduler.kernels import compilation, warm_up
from tests.properties.engine.worlds import BOUNDED, cases
from tests.unit.simulate.simulations import job, simulate

CASES = Path(__file__).parents[2] / "cases"
LARGE = Path(__file__).with_name("large.yaml")


def signatures() -> Iterator[str]:
    """Every kernel of the engine with every kind of argument it was compiled for."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("fairlead_scheduler."):
            for made in vars(module).values():
                yield from _signatures(made)


def _signatures(made: object) -> Iterator[str]:
    """Those of an entry point; nothing of anything else."""
    if isinstance(made, EntryPoint):
        compiled: Any = made.run  # a dispatcher of numba has no types
        for signature in compiled.signatures:
            yield f"{compiled.__module__}.{compiled.__name__}{signature}"


@settings(BOUNDED, database=None)
@given(cases())
def random_worlds(case: Case) -> None:
    """Whatever hypothesis thinks of, the same in every run."""
    run_case(case)


def main() -> None:
    """Warm up, play, and say what was compiled late."""
    compilation.choose_kernels(os.environ)
    warm_up.run_warm_up_rounds()
    before = set(signatures())
    assert before
    for file in (*sorted(CASES.rglob("*.yaml")), LARGE):
        for case in case_file.read_cases(file):
            run_case(case)
    random_worlds()
    simulate([job(f"j{number}", queue="abc"[number % 3]) for number in range(20)])
    for late in sorted(set(signatures()) - before):
        sys.stdout.write(f"{late}\n")


if __name__ == "__main__":
    main()
