"""The memory of a process that serves."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from engram.server import malloc

THREADS = """
import ctypes, re, sys, threading
from engram.server import malloc

if not malloc.settle():
    sys.exit(77)
barrier = threading.Barrier(12)

def use():
    kept = [bytearray(2_000) for _ in range(500)]
    barrier.wait()

threads = [threading.Thread(target=use) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
print(len(re.findall("<heap nr", open(sys.argv[1]).read())))
"""


def test_threads_share_two_heaps(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS, f"{tmp_path}/heaps.xml"], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("the allocator of this system is another one")
    assert int(done.stdout) <= 2, done.stderr


def test_what_is_free_is_given_back_until_the_server_ends() -> None:
    def trimmers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "engram-heap"]

    with malloc.kept_small(seconds=0.01):
        time.sleep(0.05)
        assert len(trimmers()) == (1 if malloc.settle() else 0)
    assert trimmers() == []
