"""The examples do real work through `fairlead up`; a direct computation must say the same."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairlead_standalone.service.testing import StandaloneInstallation

EXAMPLES = Path(__file__).parents[3] / "examples"
EXAMPLE_S_MAX = 500.0


def run(standalone: StandaloneInstallation, folder: Path, *words: str) -> str:
    """Run one example as a person would; what it printed."""
    environment = {name: value for name, value in os.environ.items() if "FAIRLEAD" not in name}
    done = subprocess.run(
        [sys.executable, *words],
        env={**environment, "FAIRLEAD_DATA": str(standalone.data)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=EXAMPLE_S_MAX,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(name: str) -> Any:  # a module, whose names mypy cannot know
    """One file of the examples as a module."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words_of(text: str) -> Counter[str]:
    """Counted in another way than the example does: letter by letter."""
    found: Counter[str] = Counter()
    word = ""
    for letter in text.casefold().replace("’", "'") + " ":
        if letter.isalpha() or (letter == "'" and word and not word.endswith("'")):
            word += letter
        else:
            if word.strip("'"):
                found[word.rstrip("'")] += 1
            word = ""
    return found


def test_the_words_of_a_folder_are_counted_by_one_job_per_file(
    standalone: StandaloneInstallation, tmp_path: Path
) -> None:
    texts, out = tmp_path / "texts", tmp_path / "out"
    shutil.copytree(EXAMPLES / "wordcount" / "texts", texts)
    (texts / "deeper").mkdir()
    shutil.copy(EXAMPLES.parent / "LICENSE", texts / "deeper" / "licence.md")
    (texts / "empty.txt").touch()
    (texts / "image.png").write_bytes(b"not a text")
    printed = run(
        standalone,
        tmp_path,
        str(EXAMPLES / "wordcount" / "wordcount.py"),
        str(texts),
        "--out",
        str(out),
    )
    files = [file for file in texts.rglob("*") if file.suffix in (".txt", ".md")]
    want = sum((words_of(file.read_text()) for file in files), Counter[str]())
    merged = json.loads((out / "merged.json").read_text())
    assert merged["counts"] == want
    assert (merged["files"], merged["total"]) == (8, want.total())
    assert printed.splitlines()[0].split() == [str(want.most_common(1)[0][1]), "the"]


def test_the_best_of_100_models_is_found(
    standalone: StandaloneInstallation, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    printed = run(standalone, tmp_path, str(EXAMPLES / "sweep" / "sweep.py"), "--out", str(out))
    assert len(list(out.glob("[0-9]*.json"))) == 100
    fit, sweep = load("sweep/fit.py"), load("sweep/sweep.py")
    rows = fit.read(EXAMPLES / "sweep" / "cooling.csv")
    want = fit.best([fit.result_of(rows, *point) for point in sweep.POINTS])
    assert json.loads((out / "best.json").read_text()) == want
    assert printed.startswith(f"best of 100: degree {want['degree']}, penalty {want['penalty']}")


def test_the_data_of_the_sweep_are_what_their_recipe_makes() -> None:
    make_data = load("sweep/make_data.py")
    assert (EXAMPLES / "sweep" / "cooling.csv").read_text().splitlines() == make_data.rows()


@pytest.mark.parametrize("queue", ["no-such-queue"])
def test_an_example_in_an_unknown_queue_reports_it(
    standalone: StandaloneInstallation, tmp_path: Path, queue: str
) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "wordcount" / "wordcount.py"), "--queue", queue],
        env={**os.environ, "FAIRLEAD_DATA": str(standalone.data)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=EXAMPLE_S_MAX,
    )
    assert done.returncode != 0
    assert queue in done.stderr
