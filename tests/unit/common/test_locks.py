"""The registry of advisory locks: no two purposes share a lock."""

from fairlead_common.db import locks
from fairlead_common.db.locks import Lock, LockClass, LockNumber, migration_lock

INT_MAX = 2**31 - 1
"""Postgres takes classes and keys as signed integers."""


def declared() -> list[Lock]:
    """Every single lock that the registry declares."""
    return [item for item in vars(locks).values() if isinstance(item, Lock)]


def test_all_declared_locks_differ_as_postgres_sees_them() -> None:
    schemas = ("fairlead_log", "fairlead_lookout", "fairlead_scheduler", "fairlead_submit")
    found = [*declared(), *map(migration_lock, schemas)]
    assert len(found) == len(set(found)) >= 8


def test_classes_and_numbers_are_declared_once() -> None:
    for registry in (LockClass, LockNumber):
        assert len(registry) == len(registry.__members__), "two names for one value"


def test_locks_named_by_one_number_leave_the_upper_half_to_migrations() -> None:
    assert all(0 < number < 2**32 for number in LockNumber)
    assert migration_lock("any").number >> 32 == locks.MIGRATIONS


def test_classes_and_keys_fit_the_integers_of_postgres() -> None:
    assert all(0 < number <= INT_MAX for number in LockClass)
