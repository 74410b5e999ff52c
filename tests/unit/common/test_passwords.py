"""Passwords from a file of argon2 hashes."""

import asyncio
from pathlib import Path

import argon2
import pytest

from fairlead_common.domain.permissions import Role
from fairlead_common.domain.problems import Problem
from fairlead_common.service.access_settings import RoleBinding
from fairlead_common.web.auth.passwords import (
    CHECK_S,
    RIGHT_S,
    WAITING_MAX,
    PasswordFileError,
    Passwords,
    main,
)
from tests.unit.common.test_oidc import Clock

CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
ROLES = (RoleBinding(role=Role.VIEWER, subjects=("group:ml",)),)


def line(name: str, password: str, groups: str = "") -> str:
    """A line of the file."""
    return f"{name}:{CHEAP.hash(password)}" + (f":{groups}" if groups else "")


def write(file: Path, text: str) -> None:
    """Make the file hold this."""
    file.write_text(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two users."""
    made = tmp_path / "passwords"
    lines = ["# who may enter", line("ann", "secret", "ml,ops"), "", line("bob", "hidden")]
    made.write_text("\n".join(lines))
    return made


async def refused(passwords: Passwords, name: str, password: str) -> str:
    """Why somebody does not get in."""
    with pytest.raises(Problem) as caught:
        await passwords.find(name, password)
    assert caught.value.slug == "unauthenticated"
    return caught.value.detail


async def test_a_valid_password_identifies_user_and_groups(file: Path) -> None:
    caller = await Passwords(file, ROLES, Clock()).find("ann", "secret")
    assert (caller.name, caller.groups, caller.roles) == ("ann", ("ml", "ops"), ("viewer",))
    assert caller.is_person


async def test_an_unknown_name_and_a_wrong_password_have_equal_refusals(file: Path) -> None:
    passwords = Passwords(file, (), Clock())
    answers = {
        await refused(passwords, *given)
        for given in (
            ("ann", "hidden"),
            ("ann", ""),
            ("eve", "secret"),
            ("", ""),
            ("ann", "x" * 2_000),
        )
    }
    assert len(answers) == 1


async def test_an_unknown_name_costs_a_hash_too(file: Path) -> None:
    checked: list[str] = []

    class Counted(Passwords):
        async def _verified(self, hashed: str, password: str) -> bool:
            checked.append(hashed)
            return await super()._verified(hashed, password)

    await refused(Counted(file, (), Clock()), "eve", "secret")
    (hashed,) = checked
    assert argon2.extract_parameters(hashed).memory_cost >= 2**16


async def test_a_verified_password_is_cached(file: Path) -> None:
    clock = Clock()
    passwords = Passwords(file, (), clock)
    assert passwords.find_cached("ann", "secret") is None
    await passwords.find("ann", "secret")
    assert passwords.find_cached("ann", "secret") is not None
    assert passwords.find_cached("ann", "other") is None
    clock.now_s += RIGHT_S
    assert passwords.find_cached("ann", "secret") is None


async def test_a_changed_password_file_takes_effect_at_once(file: Path) -> None:
    clock = Clock()
    passwords = Passwords(file, (), clock)
    await passwords.find("ann", "secret")
    write(file, line("ann", "changed"))
    clock.now_s += CHECK_S
    await refused(passwords, "ann", "secret")
    assert (await passwords.find("ann", "changed")).groups == ()
    await refused(passwords, "bob", "hidden")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ann:secret", "line 1 has no argon2 hash"),
        ("ann", "line 1 has no argon2 hash"),
        ("{ann}\n{ann}", "line 2 'ann' is not a valid name, or occurs twice"),
        ("group:{ann}", "line 1"),
    ],
)
async def test_an_invalid_password_file_refuses_all_with_the_line(
    tmp_path: Path, text: str, why: str
) -> None:
    made = tmp_path / "passwords"
    write(made, text.replace("{ann}", line("ann", "secret")))
    with pytest.raises(PasswordFileError, match=why):
        await Passwords(made, (), Clock()).find("ann", "secret")


async def test_a_missing_password_file_is_an_outage(tmp_path: Path) -> None:
    with pytest.raises(PasswordFileError, match="cannot be read"):
        await Passwords(tmp_path / "none", (), Clock()).find("ann", "secret")


async def test_passwords_that_wait_to_be_checked_are_bounded(file: Path) -> None:
    passwords = Passwords(file, (), Clock())
    asked = [passwords.find("ann", f"x-{number}") for number in range(WAITING_MAX + 20)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    slugs = [error.slug for error in found if isinstance(error, Problem)]
    assert slugs.count("unavailable") == 20
    assert slugs.count("unauthenticated") == WAITING_MAX


@pytest.mark.parametrize("words", [[], ["a b"], ["group:x"], ["ann", "bob"]])
def test_the_password_command_needs_one_name(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage"):
        main(words)
