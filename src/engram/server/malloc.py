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
"""Seconds between two calls of `malloc_trim`."""


@contextmanager
def kept_small(seconds: float = SECONDS) -> Iterator[None]:
    """Return free heap memory to the system regularly inside this context, if the allocator supports it."""
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
    """Configure glibc's allocator to keep less free memory; return False if there is another allocator.

    By default it has a heap for each thread and raises its threshold for large blocks, so that these are put into the
    heaps, too: they fragment, and the process becomes several times as large as the memory in use.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    for name, value in SETTINGS.items():
        library.mallopt(name, value)
    return True
