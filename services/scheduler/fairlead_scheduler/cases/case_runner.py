"""The command: prints a line per case, then the numbers of passed and failed cases."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import yaml

import fairlead_scheduler.cases
from fairlead_scheduler.cases import case_file, check
from fairlead_scheduler.cases.case_file import Case
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.cases.outcome import RoundResult

_JSON: Final = msgspec.json.Encoder()


def run_case(case: Case) -> tuple[list[RoundResult], list[str]]:
    """Run all rounds of a case; returns the decisions and the differences from the expectation.

    A case that refers to an unknown object ends there, with the error as its last difference.
    """
    decided_all: list[RoundResult] = []
    differences: list[str] = []
    try:
        world = World(case)
        for case_round, repetition in (
            (item, n) for item in case.rounds for n in range(item.repeat)
        ):
            world.begin(case_round, repetition)
            decided = world.decide()
            decided_all.append(decided)
            found = check.find_differences(world, decided, case_round.expect)
            differences += [f"round {world.round}: {difference}" for difference in found]
    except ValueError as error:
        differences.append(f"the case cannot be run: {error}")
    return decided_all, differences


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line per case, then `N passed, N failed`; returns 1 if a case failed."""
    parser = argparse.ArgumentParser(
        prog="python -m fairlead_scheduler.cases", description=fairlead_scheduler.cases.__doc__
    )
    parser.add_argument("--json", action="store_true", help="print the decisions of each round")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    out = sys.stdout
    passed = failed = 0
    for path in options.files:
        try:
            cases = case_file.read_cases(path)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
            sys.exit(f"{path}: {error}")
        for case in cases:
            decided, differences = run_case(case)
            passed, failed = passed + (not differences), failed + bool(differences)
            if options.json:
                out.writelines(_JSON.encode(item).decode() + "\n" for item in decided)
                continue
            out.write(f"{'FAIL' if differences else 'ok  '} {path.name}: {case.name}\n")
            out.writelines(f"     {difference}\n" for difference in differences)
    if not options.json:
        out.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0
