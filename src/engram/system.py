"""Use the operating system safely: fsync, run programs, recognise loopback addresses; and split work into batches."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar

T = TypeVar("T")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split an iterable into lists of `size`, in order; the last one may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk; does nothing for folders on Windows, which cannot."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server that listens on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def run_program(
    command: Sequence[str],
    seconds: float,
    output: IO[bytes],
    errors: IO[bytes] | None = None,
    folder: str | None = None,
) -> int | None:
    """Run a program without a shell and return its exit code, or `None` if it timed out and was killed.

    Standard error goes to `output` too unless `errors` is given. Every process it started is killed with it. Raises
    `OSError` or `ValueError` if it cannot be started.
    """
    child = subprocess.Popen(  # noqa: S603 - a list of arguments, without a shell, and the user allowed it
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if errors is None else errors,
        cwd=folder,
        start_new_session=True,
    )
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Kill a running program, and everything it started where the system has process groups."""
    if child.poll() is None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
        child.wait()
