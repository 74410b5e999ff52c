"""A new user with a clean home follows each page literally, in one shell."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.guide.guides import Block, blocks, matches

MARK = "--- block"
GUIDE_S_MAX = 500


@pytest.mark.parametrize("page", ["guide", "first-day", "groups", "coming-from"])
def test_every_command_of_the_page_works_as_documented(
    home: Path, environment: Mapping[str, str], page: str
) -> None:
    folder = home / page
    folder.mkdir()
    written = blocks(f"{page}.md")
    for block in written:
        if block.name and block.language != "sh":
            (folder / block.name).write_text(block.text)
    typed = [block for block in written if block.language == "sh" and block.name != "up"]
    printed = run(script(typed), folder, environment)
    for block in typed:
        expected = shown_after(block, written)
        if expected is not None:
            output = printed[block.line]
            assert matches(expected, output), f"line {block.line} of {page} printed:\n{output}"


def script(typed: list[Block]) -> str:
    """All commands for one shell that stops at the first that fails, with a mark before each."""
    lines = ["set -e -o pipefail"]
    for block in typed:
        lines += [f"echo '{MARK} {block.line}'", block.text]
    return "\n".join(lines)


def run(text: str, folder: Path, environment: Mapping[str, str]) -> dict[int, str]:
    """What each block printed, by its line in the page."""
    done = subprocess.run(
        ["bash", "-c", text],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=GUIDE_S_MAX,
    )
    assert done.returncode == 0, done.stdout
    parts = re.split(rf"^{MARK} (\d+)\n", done.stdout, flags=re.MULTILINE)
    return dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))


def shown_after(block: Block, written: list[Block]) -> str | None:
    """What the page says that the commands of a block print."""
    following = written[written.index(block) + 1 :]
    return following[0].text if following and following[0].language == "text" else None
