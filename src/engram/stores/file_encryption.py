"""Encrypt a SQLite file, or change its key, by writing a new file that replaces the old one atomically."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

from engram.errors import StoreBusy, StoreCorrupt, StoreError
from engram.stores.drivers import Driver
from engram.stores.schema import APPLICATION_ID
from engram.system import fsync

BLOCK = 1 << 20


def recode(path: Path, old: Driver, new: Driver) -> None:
    """Rewrite a file so that `new` can read it and `old` cannot; an interruption leaves one of the two forms intact.

    File permissions are kept. The old file is overwritten, as far as the disk does that. Raises `StoreBusy` if another
    process has it open.
    """
    fresh = path.with_name(path.name + "-recoding")
    _remove(fresh)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    source = Driver(new.module, old.key)  # only SQLCipher can read and write both forms
    try:
        with closing(source.connect(path, timeout=5, isolation_level=None)) as conn:
            _alone(conn, path, new)
            try:
                _export(conn, fresh, new)
                _compare(conn, fresh, new)
            except BaseException:
                conn.execute("PRAGMA locking_mode = NORMAL")
                conn.execute("PRAGMA journal_mode = WAL")
                raise
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
            fsync(fresh)
            before = os.open(path, os.O_RDWR)
            fresh.replace(path)
            fsync(path.parent)
        _wipe(before)
    except (sqlite3.Error, new.module.Error) as error:
        raise StoreError(f"{path} could not be encrypted: {error}; it is as it was") from error
    finally:
        _remove(fresh)


def _alone(conn: Any, path: Path, driver: Driver) -> None:
    """Lock the file exclusively. Raises `StoreBusy` if another process has it open."""
    try:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (mode,) = conn.execute("PRAGMA journal_mode = DELETE").fetchone()  # refused while others have it open
        conn.execute("PRAGMA locking_mode = EXCLUSIVE")
        conn.execute("BEGIN EXCLUSIVE")
        conn.execute("COMMIT")
    except driver.module.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        mode = "wal"
    if mode != "delete":
        raise StoreBusy(f"another process has {path} open; close it, and try again")


def _export(conn: Any, fresh: Path, new: Driver) -> None:
    conn.execute("ATTACH DATABASE ? AS recoded KEY ?", (str(fresh), f"x'{(new.key or b'').hex()}'"))
    conn.execute("SELECT sqlcipher_export('recoded')").fetchall()
    conn.execute(f"PRAGMA recoded.application_id = {APPLICATION_ID}")
    conn.execute("DETACH DATABASE recoded")


def _compare(conn: Any, fresh: Path, new: Driver) -> None:
    """Raise `StoreCorrupt` unless the new file is intact and each table has as many rows as before."""
    with closing(new.connect(fresh)) as copy:
        copy.execute("PRAGMA journal_mode = WAL")
        if copy.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise StoreCorrupt(f"the encrypted copy of {fresh} is damaged; the database is as it was. Try again")
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in conn.execute(tables)]
        if names != [name for (name,) in copy.execute(tables)]:
            raise StoreCorrupt("the encrypted copy lacks a table; the database is as it was. Try again")
        for name in names:
            count = f'SELECT count(*) FROM "{name}"'  # noqa: S608 - a table of our own
            if conn.execute(count).fetchone() != copy.execute(count).fetchone():
                raise StoreCorrupt(f"the encrypted copy lacks rows of {name}; the database is as it was. Try again")
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _wipe(handle: int) -> None:
    """Overwrite the content of the replaced file."""
    try:
        left = os.lseek(handle, 0, os.SEEK_END)
        os.lseek(handle, 0, os.SEEK_SET)
        while left > 0:
            left -= os.write(handle, bytes(min(BLOCK, left)))
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
