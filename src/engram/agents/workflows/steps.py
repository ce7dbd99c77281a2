"""The functions and programs that steps are carried out by: found by name, called, and what they gave as JSON."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from pydantic import JsonValue

from engram.agents.guard import is_async
from engram.agents.workflows import step_programs
from engram.agents.workflows.workers import within
from engram.errors import InvalidInput, MissingExtra
from engram.learning.events import error_text
from engram.model import Solution
from engram.model.content import texts_in
from engram.model.workflow import WorkflowStep
from engram.ports import unstorable

GROUP = "engram.steps"
"""The entry-point group in which packages register functions for steps."""
MOST_OUTPUT = 100_000
COMMAND_SECONDS = 600.0
_ENDED = re.compile(r": (?:exit code -?\d+|stopped after [\d.e+]+ seconds)$")

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a function is told that asks for `step`.

    `key` is the same for every attempt at this step of this run: give it to whatever can tell repetitions by a key.
    """

    run: str
    name: str
    stage: str
    attempt: int
    key: str
    error: str = ""
    """How the last attempt failed."""
    solutions: Sequence[Solution] = ()
    """What is known to solve that, the best first."""
    applied: str = ""
    """What was done about it before this attempt."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a step gave, or how it failed."""

    output: dict[str, JsonValue]
    error: str = ""


def functions(steps: Iterable[WorkflowStep], registered: Mapping[str, Function]) -> dict[str, Function]:
    """The function of each step that has one, before anything is begun. Raises `InvalidInput`."""
    found = dict[str, Function]()
    for step in steps:
        if step.run is not None:
            found[step.name] = _found(step.name, step.run, registered)
            _refuse_misfit(step, found[step.name])
    return found


def called(function: Function, values: Mapping[str, Any], context: StepContext) -> Given:
    """What a function gave; whatever it raised is how it failed."""
    offered = {"step": context} if _asks(function) and "step" not in values else {}
    try:
        return Given(_given(function(**values, **offered)))
    except SystemExit as error:  # a program's main function ends so; only the step is over
        return Given({}) if error.code in {None, 0} else Given({}, _told(error))
    except Exception as error:  # noqa: BLE001 - whatever a step raises is how it went
        return Given({}, _told(error))


def limited(call: Callable[[StepContext], Given], name: str, seconds: float, context: StepContext) -> Given:
    """What a function gave in its time. It cannot be killed: after that it goes on, and what it gives is ignored."""
    answer = within(seconds, lambda: call(context))
    if answer is None:
        return Given({}, f"TimeoutError: {name} took more than {seconds:g} seconds; it cannot be stopped, only ignored")
    if answer.error is not None:
        raise answer.error
    given: Given = answer.value
    return given


def ran(command: Sequence[str], seconds: float | None) -> Given:
    """What a program gave: `code`, `text`, and `json` if the text is JSON."""
    ended = step_programs.run(command, seconds or COMMAND_SECONDS)
    output: dict[str, JsonValue] = {"code": ended.code, "text": ended.output.strip()}
    with contextlib.suppress(ValueError, RecursionError, InvalidInput):
        output |= plain({"json": json.loads(ended.output)}, "the output")
    return Given({} if ended.error else output, shortened(ended.error))


def plain(value: Mapping[str, Any], what: str) -> dict[str, JsonValue]:
    """The same as JSON that any store can keep. Raises `InvalidInput`."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON ({error}); use texts, numbers, lists and mappings") from None
    if len(text) > MOST_OUTPUT:
        raise InvalidInput(f"{what} has {len(text):,} characters; write them to a file and give its name")
    output: dict[str, JsonValue] = json.loads(text)
    if reason := next((reason for text in texts_in(output, names=True) if (reason := unstorable(text))), None):
        raise InvalidInput(f"{what} cannot be kept: {reason}")
    return output


def shortened(error: str) -> str:
    """An error as it can be kept: of a very long one, the beginning and the end."""
    return error_text(error.replace("\0", "\ufffd").encode("utf-8", "replace").decode())


def gist(error: str) -> str:
    """The last line of an error; of a program that failed, also the last that it said."""
    *before, last = [line.strip() for line in error.splitlines() if line.strip()] or [""]
    return f"{last}: {before[-1]}" if before and _ENDED.search(last) else last


def _found(step: str, name: str, registered: Mapping[str, Function]) -> Function:
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


def _refuse_misfit(step: WorkflowStep, function: Function) -> None:
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


def _asks(function: Function) -> bool:
    try:
        return "step" in inspect.signature(function).parameters
    except (ValueError, TypeError):
        return False


def _given(value: Any) -> dict[str, JsonValue]:
    """A result as JSON: a mapping as it is, nothing as an empty one, anything else under `value`."""
    if inspect.isawaitable(value):
        raise InvalidInput("the step gave something to await; register a plain function")
    shaped = {} if value is None else dict(value) if isinstance(value, Mapping) else {"value": value}
    return plain(shaped, "what the step gave")


def _told(error: BaseException) -> str:
    """An exception as text, from where the step's own code begins."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return shortened("".join(traceback.format_exception(type(error), error, trace)).strip())
