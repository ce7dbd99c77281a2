"""Runs command lines in this process, for the tests of commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection
from typing import Any

from click.testing import CliRunner, Result

from engram.cli import main

Run = Callable[..., Result]


def run_line(line: str, *more: str, code: int | Collection[int] = 0, given: str | None = None) -> Result:
    """Run a command line and assert its exit code; `more` are arguments as they are, `given` is its input."""
    result = CliRunner().invoke(main, [*shlex.split(line.removeprefix("engram ")), *more], input=given)
    assert isinstance(result.exception, SystemExit | None), result.exc_info
    assert result.exit_code in ([code] if isinstance(code, int) else code), result.output
    return result


def value(result: Result) -> Any:
    """The JSON that a command printed."""
    return json.loads(result.stdout)
