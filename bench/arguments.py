"""Arguments and output of the benches of lookout."""

import argparse
import json
from collections.abc import Mapping
from typing import Any


def make_parser(document: str, *, jobs: int, writes: bool = True) -> argparse.ArgumentParser:
    """A parser of what these benches have in common. `document`: of the bench. `jobs`: by default.
    `writes`: whether others write while it measures."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=jobs)
    if writes:
        parser.add_argument("--rate", type=float, default=2_000.0, help="events a second")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON on stdout")
    return parser


def print_found(given: argparse.Namespace, found: Mapping[str, Any]) -> None:
    """Print the figures, for people first unless they want only the JSON. `Any`: JSON."""
    if not given.json:
        print(json.dumps(found, indent=2))
    print(json.dumps(found))
