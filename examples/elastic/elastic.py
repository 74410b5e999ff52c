"""Print the elastic training as a group or as a TrainingJob, for `fairlead submit`.

    python examples/elastic/elastic.py group > elastic.yaml && fairlead submit elastic.yaml --watch

All members run on this machine: with `fairlead up`.
"""

import argparse
import json
import shlex
import socket
import sys
from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent


def fill_in(kind: str, port: int, until: Path | None) -> str:
    """The file of this kind, with the commands of its members and the port of its server."""
    server = ["server"] if until is None else ["server", "--until", str(until)]
    commands = {"server": server, "trainer": ["trainer"], "watch": ["watch"]}
    words = {
        name: [sys.executable, str(HERE / "train.py"), *arguments]
        for name, arguments in commands.items()
    }
    as_text = shlex.join if kind == "training-job" else list
    number = port if kind == "training-job" else str(port)
    values = {name: json.dumps(as_text(command)) for name, command in words.items()}
    text = Template((HERE / f"{kind}.yaml").read_text())
    return text.substitute(values, port=json.dumps(number))


def find_port() -> int:
    """A port that nothing uses now."""
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def main() -> None:
    """Read the arguments and print the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("group", "training-job"))
    parser.add_argument("--port", type=int, default=0, help="of the server (default: a free one)")
    parser.add_argument("--until", type=Path, help="train on until this file exists")
    given = parser.parse_args()
    print(fill_in(given.kind, given.port or find_port(), given.until), end="")


if __name__ == "__main__":
    main()
