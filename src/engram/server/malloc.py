"""Return free memory to the operating system, so that a server that runs for months does not grow."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
SETTINGS = {M_ARENA_MAX: 2, M_MMAP_THRESHOLD: 256 * 1024, M_TRIM_THRESHOLD: 1024 * 1024}
SECONDS = 15.0
"""So often what is free is given back."""


@contextmanager
def kept_small(seconds: float = SECONDS) -> Iterator[None]:
    """While this runs, what the allocator keeps free is given back to the system, as far as it can tell."""
    ended = threading.Event()

    def trim() -> None:
        library = ctypes.CDLL(None)
        while not ended.wait(seconds):
            library.malloc_trim(0)

    trimmer = threading.Thread(target=trim, name="engram-heap", daemon=True) if settle() else None
    if trimmer is not None:
        trimmer.start()
    try:
        yield
    finally:
        ended.set()
        if trimmer is not None:
            trimmer.join()


def settle() -> bool:
    """Tell the allocator of glibc to keep less of what is free; whether there is one.

    Otherwise it keeps a heap for each thread and, once something large was freed, large things in them as well: what
    one thread frees lies between what others use, and the process becomes several times as large as what is in use.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    for name, value in SETTINGS.items():
        library.mallopt(name, value)
    return True
