"""What has to survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def settle(path: Path) -> None:
    """Put a file, or the names in a folder, on the disk before it returns; some systems cannot do that for folders."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
