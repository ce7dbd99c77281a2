"""Leaves the working folder, so that no settings file which somebody else put there is read."""

from __future__ import annotations

import os
from pathlib import Path


def leave_project(db: str | None) -> str | None:
    """Go to the user's home folder; the database that was named, as it is called from there.

    A cloned project may hold an `engram.toml`; what runs in every folder without being asked must not take from it
    where to send memories.
    """
    if db and "://" not in db and not db.startswith(":"):
        db = str(Path(db).expanduser().absolute())
    os.chdir(Path.home())
    return db
