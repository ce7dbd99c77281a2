"""Run the command of a prevention check: only with the user's permission, never through a shell, with a time limit."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from engram.errors import InvalidInput, NotAllowed
from engram.system import run_program

LONGEST_SECONDS = 60.0
SHOWN_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: `met` if it exited with 0; `code` is `None` if it was stopped at the time limit."""

    met: bool
    code: int | None
    output: str
    reason: str


def run_check_command(
    command: Sequence[str], *, allowed: bool, seconds: float = 10.0, folder: str | None = None
) -> CommandResult:
    """Run a program with its arguments as they are; shell syntax has no meaning.

    Raises `NotAllowed` without permission, and `InvalidInput` if the program cannot be started.
    """
    if not allowed:
        raise NotAllowed("the command of a check runs only with your permission; allow it explicitly to run it")
    if (
        isinstance(command, str)
        or not command
        or not all(isinstance(part, str) and "\0" not in part for part in command)
    ):
        raise InvalidInput("a command is a list of texts, the program first, such as ['npm', 'cache', 'verify']")
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InvalidInput(f"a command may run for up to {LONGEST_SECONDS:g} seconds, not {seconds:g}")
    with tempfile.TemporaryFile() as output:
        try:
            code = run_program(command, seconds, output, folder=folder)
        except OSError as error:
            why = f"{command[0]!a} cannot be started: {error.strerror}"
            raise InvalidInput(f"{why}; install it, or correct the command of the check") from None
        output.seek(0)
        shown = _shown(output.read(4 * SHOWN_CHARACTERS))
    if code is None:
        return CommandResult(False, None, shown, f"stopped after {seconds:g} seconds")
    reason = "the condition holds" if code == 0 else f"the condition does not hold: exit {code}"
    return CommandResult(code == 0, code, shown, reason)


def _shown(output: bytes) -> str:
    text = output.decode("utf-8", "replace")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
