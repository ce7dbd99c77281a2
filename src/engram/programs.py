"""Runs a program: never through a shell, not for longer than it may, and with an end for all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import IO


def finish(
    command: Sequence[str],
    seconds: float,
    output: IO[bytes],
    errors: IO[bytes] | None = None,
    folder: str | None = None,
) -> int | None:
    """Run a program with its arguments as they are; its exit code, or `None` if it took too long and was stopped.

    What it says goes into `output`, and so do its errors unless they have a file of their own. Raises `OSError` or
    `ValueError` if it cannot be started.
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
    """End a program that still runs, and everything it started, where the system knows groups of processes."""
    if child.poll() is None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
        child.wait()
