"""The guide to scheduling: its commands, typed literally, print the figures that it shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from examples.simulate import make_jobs
from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASSES
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.snapshot import Code
from fairlead_scheduler.simulate.input.job_lines import Line
from tools import pictures

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "scheduling.md"
BLOCK = re.compile(r"^```console\n\$ (.*?(?<!\\))\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = BLOCK.findall(GUIDE.read_text())


@pytest.mark.parametrize(("command", "printed"), PRINTED, ids=range(len(PRINTED)))
def test_the_guide_has_the_output_of_the_command(command: str, printed: str) -> None:
    words = shlex.split(command.replace("\\\n", " "))
    words[0] = str(Path(sys.executable).with_name(words[0]))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == printed


def test_the_guide_shows_four_runs() -> None:
    assert len(PRINTED) == 4


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_the_pictures_are_drawn_from_the_examples(name: str) -> None:
    drawn = (pictures.FOLDER / name).read_text()
    assert drawn == pictures.drawn(name), "run: python tools/pictures.py"
    assert f"pictures/{name}" in GUIDE.read_text()


def test_the_jobs_of_the_examples_are_those_that_the_script_makes() -> None:
    made = {
        "two-teams": make_jobs.two_teams(),
        "gangs": make_jobs.gangs(),
        "fair": make_jobs.fair(),
    }
    for name, jobs in made.items():
        assert (make_jobs.HERE / name / "jobs.jsonl").read_text() == make_jobs.text(jobs)


def test_the_guide_names_every_reason_every_class_and_every_field() -> None:
    rows = "\n".join(line for line in GUIDE.read_text().splitlines() if line.startswith("| `"))
    codes = {reason_texts.CODE_NAMES[code] for code in Code if code is not Code.NONE}
    classes = {item.name for item in DEFAULT_CLASSES}
    fields = set(Line.__struct_encode_fields__)
    assert {name for name in codes | classes | fields if f"`{name}`" not in rows} == set()
