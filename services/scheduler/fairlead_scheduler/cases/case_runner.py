"""The command: a line per case, then how many passed."""

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
from fairlead_scheduler.cases.outcome import Decided

_JSON: Final = msgspec.json.Encoder()


def play(case: Case) -> tuple[list[Decided], list[str]]:
    """All rounds of a case: what they decided, and what was not as expected.

    A case that names what is not there ends with that as its last fault.
    """
    decided_all: list[Decided] = []
    faults: list[str] = []
    try:
        world = World(case)
        for turn, again in ((item, n) for item in case.rounds for n in range(item.repeat)):
            world.begin(turn, again)
            decided = world.decide()
            decided_all.append(decided)
            found = check.faults(world, decided, turn.expect)
            faults += [f"round {world.round}: {fault}" for fault in found]
    except ValueError as error:
        faults.append(f"this case cannot be played: {error}")
    return decided_all, faults


def main(arguments: Sequence[str] | None = None) -> int:
    """A line per case, then `N passed, N failed`; 1 if any failed."""
    parser = argparse.ArgumentParser(
        prog="python -m fairlead_scheduler.cases", description=fairlead_scheduler.cases.__doc__
    )
    parser.add_argument("--json", action="store_true", help="print what each round decided")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    out = sys.stdout
    passed = failed = 0
    for path in options.files:
        try:
            cases = case_file.read(path)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
            sys.exit(f"{path}: {error}")
        for case in cases:
            decided, faults = play(case)
            passed, failed = passed + (not faults), failed + bool(faults)
            if options.json:
                out.writelines(_JSON.encode(item).decode() + "\n" for item in decided)
                continue
            out.write(f"{'FAIL' if faults else 'ok  '} {path.name}: {case.name}\n")
            out.writelines(f"     {fault}\n" for fault in faults)
    if not options.json:
        out.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0
