"""`.importlinter` says who may import whom; here, that it forgets nobody."""

import configparser
import tomllib

from tests.architecture.sources import ROOT

PURE = {
    "fairlead_scheduler.engine",
    "fairlead_scheduler.rules",
    "fairlead_scheduler.state",
    "fairlead_executor.domain",
    "fairlead_lookout.domain",
}
"""What decides: without network, loop, clock, chance or logger."""

OUTSIDE = {"asyncio", "asyncpg", "aiokafka", "redis", "socket", "time", "random", "logging"}


def contracts() -> dict[str, dict[str, set[str]]]:
    """The contracts by name; each setting as its words."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return {
        section: {name: set(value.split()) for name, value in parser[section].items()}
        for section in parser.sections()
    }


def packages(folder: str) -> set[str]:
    """The packages of the members below this folder."""
    return {file.parent.name for file in (ROOT / folder).glob("*/fairlead*/__init__.py")}


def test_every_workspace_member_is_checked() -> None:
    looked_at = contracts()["importlinter"]["root_packages"]
    assert looked_at == packages("libs") | packages("services") | packages("clients")


def test_no_service_is_left_out_of_the_independence_of_services() -> None:
    independent = contracts()["importlinter:contract:services"]["modules"]
    assert independent == packages("services") - {"fairlead_standalone"}


def test_the_common_library_imports_no_service() -> None:
    forbidden = contracts()["importlinter:contract:common"]["forbidden_modules"]
    assert forbidden == packages("services") | packages("clients")


def test_decision_code_imports_nothing_external() -> None:
    modules_in_contracts: set[str] = set()
    for contract in contracts().values():
        if contract.get("forbidden_modules", set()) >= OUTSIDE:
            modules_in_contracts |= contract["source_modules"]
    assert modules_in_contracts >= PURE


def test_members_declare_their_internal_dependencies() -> None:
    for folder in ("libs/common", "services/submit", "services/scheduler", "services/lookout"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        ours = {d for d in project["dependencies"] if d.startswith("fairlead")}
        assert ours == (set() if folder == "libs/common" else {"fairlead-common"})
