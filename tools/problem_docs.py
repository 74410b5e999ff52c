"""Write the pages of problem types into docs/problems.

python tools/problem_docs.py            # rewrites them; a test says when they are out of date
"""

from pathlib import Path
from typing import Final

from fairlead_common.domain.problems import TYPES
from fairlead_common.web import problem_pages

FOLDER: Final = Path(__file__).parent.parent / "docs" / "problems"


def pages() -> dict[str, str]:
    """The text of each file."""
    made = {f"{slug}.md": problem_pages.markdown(slug) for slug in TYPES}
    return {"README.md": problem_pages.contents(), **made}


def main() -> None:
    """Make the folder hold exactly these pages."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for file in FOLDER.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
