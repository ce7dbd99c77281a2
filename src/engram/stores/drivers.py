"""SQLite drivers: Python's own module, or SQLCipher for encrypted files."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from engram.errors import MissingExtra

PURPOSE = "sqlcipher file"
"""The purpose by which the key of a file is derived from the master key."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A DB-API module like `sqlite3`, and the key of the file if it is encrypted."""

    module: Any
    key: bytes | None = field(default=None, repr=False)

    def connect(self, address: Any, **options: Any) -> Any:
        """Open a connection; SQLite checks the key when it first reads."""
        conn = self.module.connect(address, **options)
        if self.key is not None:
            conn.execute("PRAGMA cipher_log_level = NONE")  # the caller reports the error
            conn.execute(self.pragma("key"))
        return conn

    def pragma(self, name: str) -> str:
        """Return the pragma that sets a raw key, which spares SQLCipher its slow derivation from a password."""
        return f"PRAGMA {name} = \"x'{(self.key or b'').hex()}'\""

    @property
    def version(self) -> tuple[int, ...]:
        """Return the version of SQLite."""
        return tuple(self.module.sqlite_version_info)


PLAIN = Driver(sqlite3)


def whole_file(key: bytes) -> Driver:
    """Return the driver of an encrypted file. Raises `MissingExtra` without SQLCipher."""
    try:
        from sqlcipher3 import dbapi2  # noqa: PLC0415 - an extra, needed by few
    except ImportError as error:
        raise MissingExtra(
            f"sqlcipher3 is not installed ({error}); pip install 'engram-learning[sqlcipher]'"
        ) from error
    return Driver(dbapi2, key)
