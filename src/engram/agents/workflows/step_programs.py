"""Runs the program of a step, and keeps what it said: of a long output the beginning, of long errors the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from engram.system import run_program

MOST_OUTPUT = 50_000
MOST_ERRORS = 4_000


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: `code` is none when it took too long and was stopped, or could not be started."""

    code: int | None
    output: str = ""
    error: str = ""


def run(command: Sequence[str], seconds: float) -> Ended:
    """Run a program with its arguments as they are; of a long output the beginning is kept, of long errors the end."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            code = run_program(command, seconds, output, errors)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            return Ended(None, error=f"{command[0]}: cannot be started: {why}")
        said, told = _beginning(output), _end(errors)
    if code == 0:
        return Ended(0, said)
    how = f"{command[0]}: stopped after {seconds:g} seconds" if code is None else f"{command[0]}: exit code {code}"
    return Ended(code, said, f"{told or said[-MOST_ERRORS:]}\n{how}".strip())


def _beginning(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_OUTPUT).decode("utf-8", "replace").replace("\0", "\ufffd")


def _end(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_ERRORS))
    return file.read().decode("utf-8", "replace").replace("\0", "\ufffd").strip()
