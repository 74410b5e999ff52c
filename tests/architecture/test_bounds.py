"""Bounds: how long modules and functions are at most, how many modules a folder has, and how many
parameters and fields kernels and their structures have.

The lists of longer ones only shrink: an entry that is not needed any more fails the test, and so
does one that grew. Whoever splits a module or a function lowers or removes its entry.
"""

import ast
from collections import Counter
from pathlib import PurePath

from tests.architecture.sources import ALL, SERVERS, sources
from tools import structure_report

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 75
FOLDER_MODULES_MAX = 15

PRODUCT = (*SERVERS, "clients", "tools")

LONGER_MODULES: dict[str, int] = {}
"""Path -> most lines."""

LONGER_FUNCTIONS: dict[str, int] = {}
"""Path and name -> most lines."""


FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def modules() -> dict[str, int]:
    """The lines of each module, by path."""
    return {source.path: source.text.count("\n") for source in sources(*ALL)}


def functions() -> dict[str, int]:
    """The lines of each function, by path and name; of two of one name the longer counts.

    Functions inside a function count for themselves: a router is as long as its longest route.
    """
    lengths: dict[str, int] = {}
    for source in sources(*ALL):
        for node in ast.walk(source.tree):
            if isinstance(node, FUNCTION):
                name = f"{source.path}:{node.name}"
                lengths[name] = max(own_lines(node), lengths.get(name, 0))
    return lengths


def own_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Its lines without those of the functions directly inside it."""
    inner = [node for node in function.body if isinstance(node, FUNCTION)]
    return lines_of(function) - sum(lines_of(node) for node in inner)


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From its `def` to its end."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def too_long(lengths: dict[str, int], longer: dict[str, int], most: int) -> dict[str, int]:
    """What is longer than its limit."""
    return {name: n for name, n in lengths.items() if n > longer.get(name, most)}


def test_modules_are_not_too_long() -> None:
    assert not too_long(modules(), LONGER_MODULES, MODULE_LINES_MAX)


def test_functions_are_not_too_long() -> None:
    assert not too_long(functions(), LONGER_FUNCTIONS, FUNCTION_LINES_MAX)


def test_folders_have_few_modules() -> None:
    folders = Counter(
        str(PurePath(source.path).parent)
        for source in sources(*PRODUCT)
        if not source.path.endswith("__init__.py")
    )
    assert {name: n for name, n in folders.items() if n > FOLDER_MODULES_MAX} == {}


def test_kernels_have_few_parameters() -> None:
    kernels = structure_report.find_kernels(source.tree for source in sources(*PRODUCT))
    wide = {name: n for name, n in kernels if n > structure_report.PARAMETERS_MAX}
    assert wide == {}


def test_structures_of_kernels_have_few_fields() -> None:
    structures = structure_report.find_structures(source.tree for source in sources(*PRODUCT))
    large = {name: n for name, n in structures.items() if n > structure_report.FIELDS_MAX}
    assert large == {}


def test_no_exception_is_listed_for_a_short_module() -> None:
    lengths = modules()
    assert not [path for path in LONGER_MODULES if lengths.get(path, 0) <= MODULE_LINES_MAX]
    lengths = functions()
    assert not [name for name in LONGER_FUNCTIONS if lengths.get(name, 0) <= FUNCTION_LINES_MAX]
