"""Change the working folder, so that a settings file in an untrusted project is not read."""

from __future__ import annotations

import os
from pathlib import Path


def leave_project(db: str | None) -> str | None:
    """Change to the user's home folder; return the database with an absolute path.

    A cloned project may contain an `engram.toml`. A hook runs in every folder, so it must not let that file decide
    where memories are sent.
    """
    if db and "://" not in db and not db.startswith(":"):
        db = str(Path(db).expanduser().absolute())
    os.chdir(Path.home())
    return db
