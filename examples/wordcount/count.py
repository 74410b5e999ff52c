"""What the jobs run: `count FILE RESULT`, or `merge FOLDER NUMBER`.

A job may be run again after a failure, so results appear whole or not at all.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
MOST = 10


def words_of(text: str) -> Counter[str]:
    """How often each word occurs, whatever its case."""
    return Counter(word.replace("’", "'") for word in WORD.findall(text.casefold()))


def merged(counts: list[Counter[str]]) -> dict[str, object]:
    """The sum of the counts; the most frequent words first, equal ones by name."""
    total: Counter[str] = sum(counts, Counter())
    ranked = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return {
        "files": len(counts),
        "total": total.total(),
        "different": len(total),
        "most": ranked[:MOST],
        "counts": dict(ranked),
    }


def write(file: Path, value: object) -> None:
    """Write the file under another name first."""
    if file.exists() and not file.is_file():
        sys.exit(f"{file} is no plain file, so it is left alone")
    part = file.with_suffix(".part")
    part.write_text(json.dumps(value, ensure_ascii=False))
    part.replace(file)


def main() -> None:
    """Do what the first argument says."""
    match sys.argv[1:]:
        case ["count", file, result]:
            found = words_of(Path(file).read_text(encoding="utf-8", errors="replace"))
            write(Path(result), found)
            print(f"{found.total()} words in {file}")
        case ["merge", folder, number]:
            files = [Path(folder) / f"{index}.json" for index in range(int(number))]
            summary = merged([Counter(json.loads(file.read_text())) for file in files])
            write(Path(folder) / "merged.json", summary)
            print(f"{summary['total']} words in {number} files")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
