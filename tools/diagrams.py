"""Draws the life cycles of jobs and runs into docs/life-cycles.md, from the tables that folds use.

    python tools/diagrams.py            # rewrites the diagrams where they differ
    python tools/diagrams.py --check    # exit code 1 if they differ

A diagram is between `<!-- drawn: NAME -->` and `<!-- /drawn -->`.
"""

import re
import sys
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Final, TypeVar

from fairlead_common.domain.lifecycle import (
    JOB_ENDED,
    JOB_LIVE,
    JOB_STEPS,
    JOB_WITH_RUN,
    LIFE_CYCLE,
    RUN_ENDED,
    RUN_STEPS,
    FlagChange,
    JobFlag,
    JobState,
    RunState,
)

DOCUMENT: Final = Path(__file__).parent.parent / "docs" / "life-cycles.md"
RUN_LIVE: Final = frozenset(RunState) - RUN_ENDED

S = TypeVar("S", JobState, RunState)


def diagrams() -> dict[str, str]:
    """Diagrams and tables by name, as Markdown."""
    jobs = draw(JOB_STEPS, JobState.QUEUED, "jobSubmitted", JOB_WITH_RUN, "has a run", JOB_ENDED)
    runs = draw(RUN_STEPS, RunState.LEASED, "jobRunLeased", RUN_LIVE, "live", RUN_ENDED)
    return {"jobs": _mermaid(jobs), "runs": _mermaid(runs), "flags": draw_flags()}


def _mermaid(text: str) -> str:
    return f"```mermaid\n{text}\n```"


def draw_flags() -> str:
    """A table of the changes of flags, by event."""
    lines = [
        "| event | of a job that | sets | clears | unless |",
        "| --- | --- | --- | --- | --- |",
    ]
    tags: dict[tuple[str, FlagChange], list[str]] = {}
    for tag, effect in LIFE_CYCLE.items():
        for whose, changes in (("", effect.flags), ("waits for its job and ", effect.others)):
            for change in changes:
                tags.setdefault((whose, change), []).append(tag)
    for (whose, change), events in tags.items():
        about = f"{whose}{_STATES[change.states]}{', if ' * bool(change.when)}{change.when}"
        flags = [_names(part) for part in (change.sets, change.clears, change.unless)]
        lines.append(f"| {' | '.join([', '.join(events), about, *flags])} |")
    return "\n".join(lines)


_STATES: Final = {
    frozenset({JobState.QUEUED}): "is queued",
    JOB_WITH_RUN: "has a run",
    JOB_LIVE: "has not ended",
    JOB_ENDED: "has ended",
    frozenset(JobState): "is in any state",
}


def _names(flags: JobFlag) -> str:
    return ", ".join(flag.name for flag in flags if flag.name)


def draw(
    steps: Mapping[tuple[S, str], S],
    first: S,
    begins_with: str,
    group: Set[S],
    group_name: str,
    ended: Set[S],
) -> str:
    """A state diagram; a step that all states of the group have is drawn from the group."""
    shared = {
        (tag, to)
        for (_, tag), to in steps.items()
        if all(steps.get((state, tag)) is to for state in group)
    }
    inside: dict[tuple[str, str], list[str]] = {}
    outside: dict[tuple[str, str], list[str]] = {}
    for (state, tag), to in steps.items():
        grouped = state in group and (tag, to) in shared
        edges = inside if state in group and to in group else outside
        tags = edges.setdefault(("GROUP" if grouped else state.value, to.value), [])
        if tag not in tags:
            tags.append(tag)
    lines = ["stateDiagram-v2", f"    [*] --> {first.value}: {begins_with}"]
    lines += [f'    state "{group_name}" as GROUP {{', *_edges(inside, 8), "    }"]
    lines += _edges(outside, 4)
    lines += [f"    {state.value} --> [*]" for state in type(first) if state in ended]
    return "\n".join(lines)


def _edges(edges: Mapping[tuple[str, str], list[str]], indent: int) -> list[str]:
    return [f"{' ' * indent}{a} --> {b}: {', '.join(tags)}" for (a, b), tags in edges.items()]


def redrawn(text: str) -> str:
    """The document with what is drawn from the life cycle. Raises KeyError for an unknown name."""
    drawn = diagrams()
    return re.sub(
        r"(<!-- drawn: (\w+) -->\n).*?(<!-- /drawn -->)",
        lambda found: f"{found[1]}{drawn[found[2]]}\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def main(arguments: list[str]) -> int:
    """The command. Returns its exit code."""
    old = DOCUMENT.read_text()
    new = redrawn(old)
    if "--check" in arguments:
        return int(old != new)
    if old != new:
        DOCUMENT.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
