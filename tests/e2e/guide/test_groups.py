"""A user goes through the page about groups literally."""

from collections.abc import Mapping
from pathlib import Path

from tests.e2e.guide.guides import blocks, matches
from tests.e2e.guide.test_guide import run, script, shown_after


def test_every_command_of_the_page_about_groups_works_as_documented(
    home: Path, environment: Mapping[str, str]
) -> None:
    folder = home / "groups"
    folder.mkdir()
    written = blocks("groups.md")
    for block in written:
        if block.name:
            (folder / block.name).write_text(block.text)
    typed = [block for block in written if block.language == "sh"]
    printed = run(script(typed), folder, environment)
    for block in typed:
        expected = shown_after(block, written)
        if expected is not None:
            output = printed[block.line]
            assert matches(expected, output), f"line {block.line} of the page printed:\n{output}"
