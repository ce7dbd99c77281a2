"""Content-defined chunking: an insertion shifts the cuts after it, so that other chunks stay the same.

A gear hash of the last 16 bytes decides; numpy computes it for all positions at once, by doubling the window.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

MIN_CHUNK = 16 * 1024
MAX_CHUNK = 256 * 1024
WINDOW = 16
"""In bytes. A cut is where all 16 bits of the hash are zero: one position in 65,536."""
_BLOCK = 256 * 1024
"""Sized to the processor's cache."""
_GEAR = np.array(random.Random(20).sample(range(1 << 16), 256), dtype=np.uint16)  # noqa: S311 - always the same table


def split_chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split a stream of bytes into non-empty chunks of about 64 KiB, independent of how it arrives."""
    pending, places = bytearray(), list[int]()
    for piece in pieces:
        known = max(0, len(pending) - WINDOW + 1)
        joint = bytes(pending[known:]) + piece
        fresh = len(pending) - known
        places += [known + place for place in find_cuts(joint) if place > fresh]
        pending += piece
        done = 0
        for length in _chunk_lengths(places, len(pending), whole=False):
            yield bytes(pending[done : done + length])
            done += length
        del pending[:done]
        places = [place - done for place in places if place > done]
    done = 0
    for length in _chunk_lengths(places, len(pending), whole=True):
        yield bytes(pending[done : done + length])
        done += length


def find_cuts(data: bytes) -> list[int]:
    """Return the positions where a chunk may end, ascending; never within the first window."""
    found = list[int]()
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    for start in range(0, len(data), _BLOCK):
        first = max(0, start - WINDOW + 1)
        block = bytes_[first : start + _BLOCK]
        ends = np.flatnonzero(_rolling_hash(block) == 0) + first + 1
        found += [int(end) for end in ends if end > max(start, WINDOW - 1)]
    return found


def _rolling_hash(block: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Compute the hash of the 16 bytes, or fewer at the beginning, before each position."""
    hashes = np.empty(len(block), dtype=np.uint16)
    np.take(_GEAR, block, out=hashes, mode="clip")  # no place is out of range, and not to look makes it faster
    shifted = np.empty_like(hashes)
    reach = 1
    while reach < min(WINDOW, len(block)):
        rest = len(block) - reach
        np.left_shift(hashes[:rest], reach, out=shifted[:rest])
        hashes[reach:] += shifted[:rest]
        reach *= 2
    return hashes


def _chunk_lengths(places: list[int], size: int, *, whole: bool) -> Iterator[int]:
    """Yield the lengths of chunks; a last one that more bytes could extend is omitted unless `whole`."""
    done = 0
    for place in [*places, size]:
        while place - done > MAX_CHUNK:
            yield MAX_CHUNK
            done += MAX_CHUNK
        if place - done >= MIN_CHUNK and place < size:
            yield place - done
            done = place
    if whole and done < size:
        yield size - done
