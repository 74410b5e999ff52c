"""What the engine's bench must reach (limits.yaml), and its figures as a table."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

LIMITS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "limits.yaml").read_text(encoding="utf-8")
)
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN = "<!-- begin: python bench/engine.py --all --write -->"
END = "<!-- end -->"

Result = dict[str, Any]


def apart(script: str, name: str, turns: int) -> Result:
    """The figures of a case, from a process of its own: one case's memory is not another's."""
    command = [sys.executable, script, "--case", name, "--rounds", str(turns), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: Result = json.loads(done.stdout.splitlines()[-1])
    print(done.stdout.splitlines()[-1], flush=True)
    return result


def check(results: list[Result]) -> int:
    """Print what is missed; 1 if anything is."""
    shortfalls = [shortfall for result in results for shortfall in missed(result)]
    for shortfall in shortfalls:
        print(f"MISSED {shortfall}")
    return 1 if shortfalls else 0


def missed(result: Result) -> list[str]:
    """What a case does not reach, in words; times are scaled by the machine's calibration."""
    name = result["case"]
    limit = LIMITS["cases"].get(name, {})
    slower = max(1.0, result["calibrationMs"] / LIMITS["calibration_ms"])
    shortfalls = []
    if "round_ms" in limit and result["roundMs"] > limit["round_ms"] * slower:
        shortfalls.append(
            f"{name}: a round took {result['roundMs']} ms, at most {limit['round_ms'] * slower:.1f}"
            f" are allowed ({limit['round_ms']} on a machine that is {slower:.2f} times faster)"
        )
    for key, figure, least in (
        ("memory_mb", "peakMemoryMb", False),
        ("placed_at_least", "placed", True),
        ("preempted", "preempted", True),
        ("preempted", "preempted", False),
    ):
        if key in limit and figure in result:
            have, want = result[figure], limit[key]
            if have < want if least else have > want:
                bound = "at least" if least else "at most"
                shortfalls.append(f"{name}: {figure} is {have}, {bound} {want} wanted")
    if "uneven_cores_max" in limit:
        least_cores, most_cores = result["queueCores"]
        if most_cores - least_cores > limit["uneven_cores_max"]:
            shortfalls.append(
                f"{name}: queues of equal weight got {least_cores} to {most_cores} cores, a"
                f" difference of at most {limit['uneven_cores_max']} is allowed"
            )
    return shortfalls


def table(results: list[Result]) -> str:
    """The table of docs/performance.md."""
    lines = [
        "| case | round, median | of it: prepare, order, pass, fit, explain (ms) | placed "
        "| stopped | memory | Armada | times faster |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        armada = LIMITS["cases"].get(result["case"], {}).get("armada_ms")
        steps = ", ".join(f"{ms:.1f}" for ms in result.get("stepsMs", {}).values())
        than = f"{armada / 1000:g} s | {armada / result['roundMs']:.0f}" if armada else "|"
        lines.append(
            f"| `{result['case']}` | {result['roundMs']:.1f} ms | {steps} "
            f"| {result.get('placed', 0):,} | {result.get('preempted', 0):,} "
            f"| {result.get('peakMemoryMb', 0)} MB | {than} |"
        )
    machine = statistics.median(result["calibrationMs"] for result in results)
    return "\n".join(
        [*lines, "", f"Calibration loop: {machine:.0f} ms; {LIMITS['calibration_ms']} when idle."]
    )


def write(results: list[Result]) -> None:
    """Put the table between its markers."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", encoding="utf-8")
