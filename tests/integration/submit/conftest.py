"""Databases with all tables, and empty ones."""

from tests.integration.migrated_database import empty_database, fresh_database, migrated_database

__all__ = ["empty_database", "fresh_database", "migrated_database"]
