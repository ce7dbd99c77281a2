"""Drivers of SQLite files: Python's own module, or SQLCipher for files encrypted as a whole."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from engram.errors import MissingExtra

PURPOSE = "sqlcipher file"
"""What the key of a whole file is derived for."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A module like `sqlite3`, and the key of the file, if it is encrypted."""

    module: Any
    key: bytes | None = field(default=None, repr=False)

    def connect(self, address: Any, **options: Any) -> Any:
        """A connection that can read the file, if the key is the right one: SQLite finds out when it first reads."""
        conn = self.module.connect(address, **options)
        if self.key is not None:
            conn.execute("PRAGMA cipher_log_level = NONE")  # what is wrong is said by whoever opened it
            conn.execute(self.pragma("key"))
        return conn

    def pragma(self, name: str) -> str:
        """SQLCipher's words for the key: as it is, so that no time is spent on making one from a password."""
        return f"PRAGMA {name} = \"x'{(self.key or b'').hex()}'\""

    @property
    def version(self) -> tuple[int, ...]:
        """The version of SQLite."""
        return tuple(self.module.sqlite_version_info)


PLAIN = Driver(sqlite3)


def whole_file(key: bytes) -> Driver:
    """For a file that is encrypted as a whole. Raises `MissingExtra` without SQLCipher."""
    try:
        from sqlcipher3 import dbapi2  # noqa: PLC0415 - an extra, needed by few
    except ImportError as error:
        raise MissingExtra(
            f"sqlcipher3 is not installed ({error}); pip install 'engram-learning[sqlcipher]'"
        ) from error
    return Driver(dbapi2, key)
