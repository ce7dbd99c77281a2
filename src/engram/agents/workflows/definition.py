"""Read workflow definitions, validate them, resolve references, and order their steps."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model.content import texts_in
from engram.model.workflow import Stage, Workflow, WorkflowStep
from engram.text.safe_yaml import read_as, validate_as

_REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)\}")
_REFERENCE_FORMS = "${parameters.NAME}, ${steps.NAME.output.KEY} and ${run.id}"

T = TypeVar("T")


def read(source: str | Path | Mapping[str, JsonValue]) -> Workflow:
    """Read a workflow from YAML text, a file or a mapping. Raises `InvalidInput` with the place of an error."""
    what = "the workflow" if isinstance(source, str | Mapping) else f"the workflow {source.name}"
    if isinstance(source, Mapping):
        return validate(validate_as(dict(source), what, Workflow))
    return validate(read_as(source, what, Workflow))


def validate(workflow: Workflow) -> Workflow:
    """Return the workflow if it can be run. Raises `InvalidInput` for cycles and unknown names."""
    _check_unique("stage", [stage.name for stage in workflow.stages])
    _check_unique("step", [step.name for step in workflow.steps])
    stages = ordered_stages(workflow)
    before = set[str]()
    known = {step.name: step for step in workflow.steps}
    for stage in stages:
        own = {step.name for step in stage.steps}
        for step in stage.steps:
            _check_step(workflow, stage, step, known, before | own)
        _ordered_steps(stage)
        before |= own
    return workflow


def ordered_stages(workflow: Workflow) -> list[Stage]:
    """Return the stages in order of execution: after those they need, otherwise as written."""
    above = list[str]()
    needs = dict[str, set[str]]()
    names = {stage.name for stage in workflow.stages}
    for stage in workflow.stages:
        for name in stage.needs or ():
            if name not in names:
                raise InvalidInput(
                    f"stage {stage.name!r} needs the stage {name!r}, which is not there; add or correct it"
                )
        needs[stage.name] = set(above if stage.needs is None else stage.needs)
        above.append(stage.name)
    return _topological_order(workflow.stages, needs, lambda stage: stage.name, "stages")


def execution_order(workflow: Workflow) -> list[tuple[Stage, list[WorkflowStep]]]:
    """Return the stages with their steps in order of execution."""
    return [(stage, _ordered_steps(stage)) for stage in ordered_stages(workflow)]


def required_steps(step: WorkflowStep) -> set[str]:
    """Return the steps it depends on: by `needs`, by `when`, and by references to their output."""
    used = {path[1] for path in references(step) if path[0] == "steps" and len(path) > 1}
    return {*step.needs, *step.when, *used}


def dependents(workflow: Workflow, name: str) -> set[str]:
    """Return the steps that depend on a step, directly or indirectly."""
    found, waiting = set[str](), [name]
    while waiting:
        each = waiting.pop()
        fresh = {step.name for step in workflow.steps if each in required_steps(step)} - found
        found |= fresh
        waiting += fresh
    return found


def references(step: WorkflowStep) -> list[list[str]]:
    """Return the references in a step as paths: `${steps.build.output.file}` is steps, build, output, file."""
    spoken = [step.action, step.context, *(step.command or ()), *texts_in(step.values)]
    spoken += [step.decide.context] if step.decide is not None else []
    found = [match for text in spoken if text for match in _REFERENCE.finditer(text)]
    return [match[2].split(".") for match in found if not match[1]]


def fill(value: JsonValue, known: Mapping[str, JsonValue]) -> JsonValue:
    """Replace the references in a value; a text that is a single reference becomes the referenced value."""
    if isinstance(value, str):
        whole = _REFERENCE.fullmatch(value)
        if whole is not None and not whole[1]:
            return _look_up(whole[2], known)
        return fill_text(value, known)
    if isinstance(value, list):
        return [fill(one, known) for one in value]
    if isinstance(value, dict):
        return {name: fill(one, known) for name, one in value.items()}
    return value


def fill_text(text: str, known: Mapping[str, JsonValue]) -> str:
    """Replace the references in a text by texts; `$${` stands for `${`."""

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        value = _look_up(match[2], known)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _REFERENCE.sub(replaced, text)


def resolve_parameters(workflow: Workflow, given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Merge the given parameters with the defaults. Raises `InvalidInput`."""
    if unknown := sorted(given.keys() - workflow.parameters.keys()):
        there = ", ".join(workflow.parameters) or "none"
        raise InvalidInput(f"{workflow.name} has no parameter {unknown[0]!r}; there are: {there}")
    found = {**workflow.parameters, **given}
    if missing := [name for name, value in found.items() if value is None]:
        raise InvalidInput(f"{workflow.name} needs the parameter {missing[0]!r}; give it a value")
    for name, value in given.items():
        kind, own = _type_name(workflow.parameters[name]), _type_name(value)
        if kind not in {"null", own}:
            raise InvalidInput(f"the parameter {name!r} of {workflow.name} is a {kind}, not a {own}; give a {kind}")
    return found


def _look_up(path: str, known: Mapping[str, JsonValue]) -> JsonValue:
    value: JsonValue = dict(known)
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and part.isascii() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            raise InvalidInput(f"${{{path}}} is not there: nothing is called {part!r}; correct it, or what gives it")
    return value


def _check_step(
    workflow: Workflow, stage: Stage, step: WorkflowStep, known: Mapping[str, WorkflowStep], before: set[str]
) -> None:
    place = f"step {step.name!r} of stage {stage.name!r}"
    for path in references(step):
        _check_reference(workflow, place, path, known)
    for name in sorted(required_steps(step)):
        if name not in known:
            raise InvalidInput(f"{place} needs the step {name!r}, which is not there; add or correct it")
        if name not in before:
            raise InvalidInput(f"{place} needs the step {name!r} of a stage that comes later; move one of them")
    for name, wanted in step.when.items():
        choice = known[name].decide
        if choice is None:
            raise InvalidInput(f"{place} depends on {name!r} by `when`, which decides nothing; name a step with decide")
        for action in [wanted] if isinstance(wanted, str) else wanted:
            if action not in choice.actions:
                raise InvalidInput(f"{place} waits for {name!r} to be {action!r}, which is none of its actions; add it")


def _check_reference(workflow: Workflow, place: str, path: list[str], known: Mapping[str, WorkflowStep]) -> None:
    written = f"{place} refers to ${{{'.'.join(path)}}}"
    if path[0] == "parameters" and len(path) > 1:
        if path[1] not in workflow.parameters:
            raise InvalidInput(f"{written}, but there is no parameter {path[1]!r}; add it to the parameters")
    elif path[0] == "steps" and len(path) > 2 and path[2] == "output":
        if path[1] not in known:
            raise InvalidInput(f"{written}, but there is no step {path[1]!r}; add or correct it")
    elif path != ["run", "id"]:
        raise InvalidInput(f"{written}, which is no reference; there are {_REFERENCE_FORMS}, and $${{…}} is text")


def _ordered_steps(stage: Stage) -> list[WorkflowStep]:
    own = {step.name for step in stage.steps}
    needs = {step.name: required_steps(step) & own for step in stage.steps}
    return _topological_order(stage.steps, needs, lambda step: step.name, f"steps of stage {stage.name!r}")


def _topological_order(
    items: Iterable[T], needs: Mapping[str, set[str]], name: Callable[[T], str], what: str
) -> list[T]:
    """Order items after those they need, otherwise as given. Raises `InvalidInput` for a cycle."""
    waiting, done, found = list(items), set[str](), list[T]()
    while waiting:
        ready = next((item for item in waiting if needs[name(item)] <= done), None)
        if ready is None:
            cycle = " → ".join(_cycle(name(waiting[0]), needs, done))
            raise InvalidInput(f"the {what} wait for each other: {cycle}; take one of these needs out")
        waiting.remove(ready)
        done.add(name(ready))
        found.append(ready)
    return found


def _cycle(start: str, needs: Mapping[str, set[str]], done: set[str]) -> list[str]:
    path = [start]
    while path[-1] not in path[:-1]:
        path.append(min(needs[path[-1]] - done))
    return path[path.index(path[-1]) :]


def _check_unique(what: str, names: list[str]) -> None:
    if repeated := next((name for name, count in Counter(names).items() if count > 1), None):
        raise InvalidInput(f"there are two {what}s called {repeated!r}; give each its own name")


def _type_name(value: JsonValue) -> str:
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (int, "number"), (float, "number"), (str, "text"), (list, "list"))
    return next((kind for type_, kind in kinds if isinstance(value, type_)), "mapping")
