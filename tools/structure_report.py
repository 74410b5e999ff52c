"""Print the structure of a checkout in numbers: lines, modules, shared names, kernels, structures.

`python tools/structure_report.py [ROOT]` prints tables in Markdown. ROOT is another checkout, such
as a worktree of an older commit, to compare with.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PACKAGES: Final = ("libs/*/fairlead*", "services/*/fairlead*", "clients/python/fairlead")
FOLDERS_LISTED_MAX: Final = 12
PARAMETERS_MAX: Final = 8
FIELDS_MAX: Final = 15
KERNEL_DECORATORS: Final = frozenset(
    {
        "entry",
        "entry_point",
        "expanded",
        "inlined",
        "internal",
        "kernel",
        "part",
        "separate",
        "steady",
    }
)
"""Decorators of functions that numba compiles, in this version and in older ones."""
STRUCTURE_DECORATOR: Final = "by_address"
"""The decorator of structures that kernels share."""


class Module(NamedTuple):
    """A module of a package. `path` is relative to the checkout."""

    package: str
    path: Path
    text: str
    tree: ast.Module


def read_modules(root: Path) -> list[Module]:
    """All modules of the packages below `root`, in order."""
    return [
        Module(folder.name, file.relative_to(root), text := file.read_text(), ast.parse(text))
        for pattern in PACKAGES
        for folder in sorted(root.glob(pattern))
        for file in sorted(folder.rglob("*.py"))
        if "__pycache__" not in file.parts
    ]


def count_lines(modules: Sequence[Module]) -> Mapping[str, int]:
    """The lines of each package."""
    lines: Counter[str] = Counter()
    for module in modules:
        lines[module.package] += module.text.count("\n")
    return lines


def count_modules(modules: Sequence[Module]) -> Mapping[str, int]:
    """The modules of each folder, `__init__` not counted."""
    return Counter(str(module.path.parent) for module in modules if module.path.stem != "__init__")


def find_shared_names(modules: Sequence[Module]) -> Mapping[str, int]:
    """Base names of several modules, with their number; `__init__` and `__main__` left out."""
    names = Counter(module.path.stem for module in modules)
    return {name: n for name, n in names.items() if n > 1 and not name.startswith("__")}


def find_shared_classes(modules: Sequence[Module]) -> Mapping[str, int]:
    """Names of public classes that several modules define, with the number of modules."""
    owners = defaultdict(set)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners[node.name].add(module.path)
    return {name: len(paths) for name, paths in owners.items() if len(paths) > 1}


def find_kernels(trees: Iterable[ast.Module]) -> Iterator[tuple[str, int]]:
    """The functions that numba compiles, with the number of their parameters."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(
                _decorator_name(each) in KERNEL_DECORATORS for each in node.decorator_list
            ):
                arguments = node.args
                yield node.name, len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs)


def find_structures(trees: Iterable[ast.Module]) -> Mapping[str, int]:
    """The structures that kernels share, with the number of their fields."""
    return {
        node.name: sum(isinstance(each, ast.AnnAssign) for each in node.body)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(_decorator_name(each) == STRUCTURE_DECORATOR for each in node.decorator_list)
    }


def _decorator_name(node: ast.expr) -> str:
    match node:
        case ast.Call(func=func):
            return _decorator_name(func)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def report(root: Path) -> str:
    """The tables."""
    modules = read_modules(root)
    lines, folders = count_lines(modules), count_modules(modules)
    largest = sorted(folders.items(), key=lambda item: (-item[1], item[0]))[:FOLDERS_LISTED_MAX]
    trees = [module.tree for module in modules]
    kernels = list(find_kernels(trees))
    wide = {name: n for name, n in kernels if n > PARAMETERS_MAX}
    structures = find_structures(trees)
    large = {name: n for name, n in structures.items() if n > FIELDS_MAX}
    shared, classes = find_shared_names(modules), find_shared_classes(modules)
    return "\n".join(
        [
            "| package | lines |",
            "| --- | --- |",
            *(f"| {name} | {n:,} |" for name, n in lines.items()),
            f"| all | {sum(lines.values()):,} |",
            "",
            "| folder | modules |",
            "| --- | --- |",
            *(f"| {name} | {n} |" for name, n in largest),
            "",
            f"Module names of several modules ({len(shared)}): {_list(shared)}",
            "",
            f"Class names of several modules ({len(classes)}): {_list(classes)}",
            "",
            f"Kernels: {len(kernels)}; with more than {PARAMETERS_MAX} parameters: {_list(wide)}",
            "",
            f"Structures of kernels: {len(structures)} with {sum(structures.values())} fields;"
            f" with more than {FIELDS_MAX}: {_list(large)}",
        ]
    )


def _list(names: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(names.items())) or "none"


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    sys.stdout.write(report(root) + "\n")
