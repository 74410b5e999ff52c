"""The documents say what is so: diagrams, links, and the commands that they tell people to type."""

import inspect
import re

import pytest

from fairlead.cli import add_plugins, build_app
from fairlead_lookout.http.responses import array_responses, waiting_reasons
from fairlead_scheduler.engine.plan.reason_texts import CODE_NAMES
from fairlead_scheduler.engine.snapshot import Code
from fairlead_scheduler.service import reporter
from tests.architecture.sources import ROOT
from tools import diagrams, reference

DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "services/*/*.md", "tests/cases/*.md", "examples/*.md")
    for file in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^)#\s]+)")
ANCHOR_LINK = re.compile(r"\]\(([^)#\s]*)#(?!L\d+\))([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINE_LINK = re.compile(r"\[`(\w+)`\]\(([^)#\s]+)#L(\d+)\)")
MAKE = re.compile(r"\bmake ([a-z]+)\b")
COMMAND = re.compile(r"^(?:\S+/)?fairlead ([a-z]+)", re.MULTILINE)
CODE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
TYPED = ("", "sh", "console")
NAMES = [str(file.relative_to(ROOT)) for file in DOCUMENTS]


def code(text: str) -> str:
    """What is to be typed: what stands in such blocks of code, and between backticks."""
    return "\n".join(
        found[2] or found[3] for found in CODE.finditer(text) if found[3] or found[1] in TYPED
    )


def test_the_diagrams_are_drawn_from_the_tables() -> None:
    text = diagrams.DOCUMENT.read_text()
    assert text == diagrams.redrawn(text), "run: python tools/diagrams.py"
    assert all(f"<!-- drawn: {name} -->" in text for name in diagrams.diagrams())


def test_the_reference_is_made_from_the_code() -> None:
    written = {file.name: file.read_text() for file in reference.FOLDER.iterdir()}
    assert written == reference.documents(), "run: python -m tools.reference"


def test_a_transition_of_all_states_of_a_group_is_drawn_once() -> None:
    assert diagrams.diagrams()["jobs"].count("jobPreempted") == 1


@pytest.mark.parametrize("name", NAMES)
def test_link_targets_exist(name: str) -> None:
    folder = (ROOT / name).parent
    targets = LINK.findall((ROOT / name).read_text())
    local = [target for target in targets if "://" not in target]
    assert not [target for target in local if not (folder / target).exists()]


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_anchors_of_links_exist(name: str) -> None:
    page = ROOT / name
    for target, anchor in ANCHOR_LINK.findall(page.read_text()):
        other = page.parent / target if target else page
        if "://" not in target and other.suffix == ".md":
            assert anchor in anchors(other.read_text()), f"{target}#{anchor}"


@pytest.mark.parametrize("name", NAMES)
def test_line_links_point_at_the_named_definition(name: str) -> None:
    folder = (ROOT / name).parent
    for symbol, target, line in LINE_LINK.findall((ROOT / name).read_text()):
        linked_line = (folder / target).read_text().splitlines()[int(line) - 1]
        defined = rf"(async def|def|class) {symbol}\b|{symbol}(:| =)"
        assert re.match(defined, linked_line), f"{target}#L{line} does not define {symbol}"


@pytest.mark.parametrize("name", NAMES)
def test_documented_make_targets_exist(name: str) -> None:
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(MAKE.findall(code((ROOT / name).read_text()))) <= made


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("docs/decisions")])
def test_documented_commands_exist(name: str) -> None:
    app = build_app()
    add_plugins(app)
    commands = {command.name for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    assert set(COMMAND.findall(code((ROOT / name).read_text()))) <= commands


def test_every_reason_of_a_waiting_job_is_explained() -> None:
    """Those of the engine, of reports, and of lookout, which writes them as `code="..."`."""
    codes = {name for code, name in CODE_NAMES.items() if code is not Code.NONE}
    codes |= {reporter.POOL_FAILING, reporter.GANG_STOPPING, reporter.LOST_RUN}
    for module in (waiting_reasons, array_responses):
        codes |= set(re.findall(r'code="([a-zA-Z-]+)"', inspect.getsource(module)))
    text = (ROOT / "docs" / "scheduling.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", text.partition("## Why is it waiting?")[2], re.MULTILINE)
    explained = {code for row in rows for code in re.findall(r"`([^`]+)`", row)}
    assert codes <= explained, codes - explained


def test_decision_records_have_unique_numbers_and_all_sections() -> None:
    files = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    numbers = [int(file.name[:4]) for file in files]
    assert len(set(numbers)) == len(numbers)
    for file, number in zip(files, numbers, strict=True):
        text = file.read_text()
        assert text.startswith(f"# {number}. "), file.name
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences", "Rejected"], file.name


def test_the_index_of_decisions_has_each_record_once_with_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    index = re.findall(
        r"^\| \[(\d+)\]\((\S+)\) \| (.*?) \|", (folder / "README.md").read_text(), re.MULTILINE
    )
    records = {file.name: file.read_text().partition("\n")[0] for file in folder.glob("0*.md")}
    assert len(index) == len(records)
    assert {name: f"# {number}. {title}" for number, name, title in index} == records
