"""Draws the pictures of docs/scheduling.md, from simulations of the examples.

python tools/pictures.py            # rewrites the pictures where they differ
python tools/pictures.py --check    # exit code 1 if they differ
"""

import os
import sys
from pathlib import Path
from typing import Final

from fairlead_scheduler.kernels import compilation
from fairlead_scheduler.simulate import simulation
from fairlead_scheduler.simulate.output import html_report

ROOT: Final = Path(__file__).parent.parent
EXAMPLES: Final = ROOT / "examples" / "simulate"
FOLDER: Final = ROOT / "docs" / "pictures"
PICTURES: Final = {
    "two-teams.svg": ("two-teams", None),
    "two-teams-patient.svg": ("two-teams", "patient.yaml"),
    "gangs.svg": ("gangs", "settings.yaml"),
    "fair.svg": ("fair", "settings.yaml"),
}


def drawn(name: str) -> str:
    """One picture: the shares of the queues over time."""
    example, settings = PICTURES[name]
    folder = EXAMPLES / example
    options = simulation.SimulationOptions(
        folder / "jobs.jsonl",
        folder / "nodes.yaml",
        None if settings is None else folder / settings,
    )
    outcome = simulation.run_simulation(
        options, simulation.read_input(options), None, lambda done, jobs, now_ms: None
    )
    return html_report.draw_shares(html_report.read_history(outcome.ledger), alone=True)


def main() -> int:
    """Rewrite what differs, or with --check only say so."""
    compilation.choose_kernels(os.environ)
    different = 0
    for name in PICTURES:
        picture = drawn(name)
        file = FOLDER / name
        if file.exists() and file.read_text() == picture:
            continue
        different += 1
        sys.stdout.write(f"{file.relative_to(ROOT)} differs\n")
        if "--check" not in sys.argv:
            file.write_text(picture)
    return 1 if different and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
