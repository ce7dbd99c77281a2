"""Execute the functions and programs of steps, and convert their results to JSON."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import IO, Any

from pydantic import JsonValue

from engram.agents.guard import is_async
from engram.agents.workflows.workers import call_with_timeout
from engram.errors import InvalidInput, MissingExtra
from engram.learning.events import error_text
from engram.model import Solution
from engram.model.content import texts_in
from engram.model.workflow import WorkflowStep
from engram.ports import unstorable
from engram.system import run_program

GROUP = "engram.steps"
"""Entry-point group in which packages register functions for steps."""
MAX_OUTPUT = 100_000
COMMAND_SECONDS = 600.0
_MAX_PROGRAM_OUTPUT = 50_000
_MAX_ERRORS = 4_000
_ENDED = re.compile(r": (?:exit code -?\d+|stopped after [\d.e+]+ seconds)$")

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class StepContext:
    """Information for a function with a parameter `step`.

    `key` is the same for every attempt at this step of this run: use it as an idempotency key.
    """

    run: str
    name: str
    stage: str
    attempt: int
    key: str
    error: str = ""
    """Error of the last attempt."""
    solutions: Sequence[Solution] = ()
    """Known solutions of that error, best first."""
    applied: str = ""
    """The solution that was applied before this attempt."""


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The output of a step, or its error."""

    output: dict[str, JsonValue]
    error: str = ""


@dataclass(frozen=True, slots=True)
class _ProgramResult:
    """Result of a program; `code` is `None` if it timed out or could not be started."""

    code: int | None
    output: str = ""
    error: str = ""


def find_functions(steps: Iterable[WorkflowStep], registered: Mapping[str, Function]) -> dict[str, Function]:
    """Find the function of each step before the run starts. Raises `InvalidInput`."""
    found = dict[str, Function]()
    for step in steps:
        if step.run is not None:
            found[step.name] = _find_function(step.name, step.run, registered)
            _check_signature(step, found[step.name])
    return found


def call_function(function: Function, values: Mapping[str, Any], context: StepContext) -> StepOutput:
    """Call a function; an exception becomes the error of the step."""
    offered = {"step": context} if _takes_step(function) and "step" not in values else {}
    try:
        return StepOutput(_to_output(function(**values, **offered)))
    except SystemExit as error:  # a program's main function ends so; only the step is over
        return StepOutput({}) if error.code in {None, 0} else StepOutput({}, _format_error(error))
    except Exception as error:  # noqa: BLE001 - whatever a step raises is how it went
        return StepOutput({}, _format_error(error))


def call_limited(
    call: Callable[[StepContext], StepOutput], name: str, seconds: float, context: StepContext
) -> StepOutput:
    """Call a function with a time limit; after a timeout it keeps running, but its result is ignored."""
    answer = call_with_timeout(seconds, lambda: call(context))
    if answer is None:
        return StepOutput(
            {}, f"TimeoutError: {name} took more than {seconds:g} seconds; it cannot be stopped, only ignored"
        )
    if answer.error is not None:
        raise answer.error
    given: StepOutput = answer.value
    return given


def run_command(command: Sequence[str], seconds: float | None) -> StepOutput:
    """Run a program; the output has `code`, `text`, and `json` if the text is JSON."""
    ended = _run_program(command, seconds or COMMAND_SECONDS)
    output: dict[str, JsonValue] = {"code": ended.code, "text": ended.output.strip()}
    with contextlib.suppress(ValueError, RecursionError, InvalidInput):
        output |= to_json({"json": json.loads(ended.output)}, "the output")
    return StepOutput({} if ended.error else output, shorten_error(ended.error))


def _run_program(command: Sequence[str], seconds: float) -> _ProgramResult:
    """Run a program; the start of a long output and the end of long errors are kept."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            code = run_program(command, seconds, output, errors)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            return _ProgramResult(None, error=f"{command[0]}: cannot be started: {why}")
        said, told = _read_start(output), _read_end(errors)
    if code == 0:
        return _ProgramResult(0, said)
    how = f"{command[0]}: stopped after {seconds:g} seconds" if code is None else f"{command[0]}: exit code {code}"
    return _ProgramResult(code, said, f"{told or said[-_MAX_ERRORS:]}\n{how}".strip())


def _read_start(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_PROGRAM_OUTPUT).decode("utf-8", "replace").replace("\0", "\ufffd")


def _read_end(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_ERRORS))
    return file.read().decode("utf-8", "replace").replace("\0", "\ufffd").strip()


def to_json(value: Mapping[str, Any], what: str) -> dict[str, JsonValue]:
    """Convert a mapping to JSON that any store can hold. Raises `InvalidInput`."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON ({error}); use texts, numbers, lists and mappings") from None
    if len(text) > MAX_OUTPUT:
        raise InvalidInput(f"{what} has {len(text):,} characters; write them to a file and give its name")
    output: dict[str, JsonValue] = json.loads(text)
    if reason := next((reason for text in texts_in(output, names=True) if (reason := unstorable(text))), None):
        raise InvalidInput(f"{what} cannot be stored: {reason}")
    return output


def shorten_error(error: str) -> str:
    """Shorten a long error to its beginning and end."""
    return error_text(error.replace("\0", "\ufffd").encode("utf-8", "replace").decode())


def error_summary(error: str) -> str:
    """Return the last line of an error; for a failed program, also its last line of output."""
    *before, last = [line.strip() for line in error.splitlines() if line.strip()] or [""]
    return f"{last}: {before[-1]}" if before and _ENDED.search(last) else last


def _find_function(step: str, name: str, registered: Mapping[str, Function]) -> Function:
    if name in registered:
        return registered[name]
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = ", ".join(sorted({*registered, *points})) or "none"
        raise InvalidInput(
            f"step {step!r} runs {name!r}, which is not registered; there are: {known}; "
            "name the function in steps=, or its module with --steps"
        )
    try:
        function: Function = points[name].load()
    except ImportError as error:
        raise MissingExtra(f"{name} needs a package that is not installed ({error}); install it") from error
    return function


def _check_signature(step: WorkflowStep, function: Function) -> None:
    if not callable(function) or is_async(function):
        raise InvalidInput(f"step {step.name!r} runs {step.run!r}, which is no plain function; register one")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some built-in functions have none
        return
    offered = {"step": None} if "step" in signature.parameters and "step" not in step.values else {}
    try:
        signature.bind(**step.values, **offered)
    except TypeError as error:
        raise InvalidInput(f"step {step.name!r} cannot run {step.run!r}: {error}; correct its `with`") from None


def _takes_step(function: Function) -> bool:
    try:
        return "step" in inspect.signature(function).parameters
    except (ValueError, TypeError):
        return False


def _to_output(value: Any) -> dict[str, JsonValue]:
    """Convert a function's result: a mapping unchanged, `None` to an empty one, others under `value`."""
    if inspect.isawaitable(value):
        raise InvalidInput("the step gave something to await; register a plain function")
    shaped = {} if value is None else dict(value) if isinstance(value, Mapping) else {"value": value}
    return to_json(shaped, "what the step gave")


def _format_error(error: BaseException) -> str:
    """Format an exception, with the traceback starting at the step's own code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return shorten_error("".join(traceback.format_exception(type(error), error, trace)).strip())
