"""`engram workflow`: run, resume, list and validate workflows."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation, only_owner
from engram.cli.options import (
    CommandGroup,
    agent_option,
    limit_option,
    option_group,
    owner_option,
    reader_option,
    split_pair,
)
from engram.cli.render import preview, print_json, print_list, print_table, with_agent
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.agents.workflows.runner import WorkflowEngine
    from engram.engine import AgentHandle, Engram
    from engram.model.workflow import ExecutionResult, RunSummary, StepResult, Workflow

NOT_ALLOWED = 4
EXIT_CODES = {"done": 0, "failed": 1, "interrupted": 1, "blocked": NOT_ALLOWED}
STEPS_MODULE = "engram_steps"
"""The module name of steps loaded from a file."""
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("workflow", cls=CommandGroup)
def command() -> None:
    """Run workflows with memory.

    Decision steps use what was learned, known failures block a step before it starts, and the outcome of each step is
    recorded. An interrupted run can be resumed.
    """


run_options = option_group(
    click.option("--allow-commands", is_flag=True, help="Allow steps and checks to run commands."),
    click.option("--ignore-blocks", is_flag=True, help="Continue in spite of known failures and unmet checks."),
    click.option(
        "--steps",
        "module",
        metavar="MODULE",
        help="A Python module or .py file whose public functions steps may call, besides installed ones.",
    ),
)
"""Permissions of a run, and the source of its functions."""


@command.command("run")
@click.argument("file", type=FILE)
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated.")
@click.option("--id", "id", metavar="NAME", help="The name of the run. Default: a new id.")
@run_options
@agent_option
@click.pass_context
def run(
    ctx: click.Context, /, file: Path, given: tuple[str, ...], id: str | None, agent: str | None, **options: Any
) -> None:
    """Run the workflow in a YAML file.

    Exit codes: 0 all steps are done, 1 a step failed, 4 a check or a known failure blocked it. Nothing is started if
    the workflow is invalid, or has commands that are not allowed.
    """
    from engram.agents.workflows.definition import read

    cli = ctx.ensure_object(Invocation)
    workflow = read(file)
    parameters = _parameters(workflow, given)
    with cli.brain(create=True) as brain:
        engine = _engine(cli, brain, cli.writer(brain, agent), options.pop("module"))
        name = id or brain.sources.new_id()
        cli.notice(f"run {name} of {workflow.name}")
        with _warnings_as_notices(cli):
            result = engine.run(workflow, parameters, id=name, **options)
    _print_and_exit(ctx, cli, result)


@command.command("resume")
@click.argument("run", metavar="RUN")
@click.option("--again", is_flag=True, help="Repeat a step that was started but did not end.")
@run_options
@owner_option
@click.pass_context
def resume(ctx: click.Context, /, run: str, agent: str | None, **options: Any) -> None:
    """Resume a run where it stopped.

    Finished steps are not repeated; a failed step is tried again. A step that was started but did not end may have had
    its effect: it is repeated only if the workflow marks it as idempotent, or with --again. Exit codes are as for run.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        owner = _owner(cli, brain, agent, run)
        engine = _engine(cli, brain, owner, options.pop("module"))
        with _warnings_as_notices(cli):
            result = engine.resume(run, **options)
    _print_and_exit(ctx, cli, result)


@command.command("status")
@click.argument("run", metavar="RUN")
@owner_option
@click.pass_obj
def status(cli: Invocation, run: str, agent: str | None) -> None:
    """Show the steps of a run, and known solutions for those that failed."""
    with cli.brain() as brain:
        result = _engine(cli, brain, _owner(cli, brain, agent, run)).status(run)
    if cli.json:
        print_json(result.model_dump(mode="json"))
        return
    click.echo(f"Run {one_line(result.run)} of {one_line(result.workflow)}, started {format_time(result.started_at)}")
    rows = [
        [step.stage, step.name, step.status, str(step.attempts), _seconds(step), preview(_detail(step))]
        for step in result.steps
    ]
    print_table(["STAGE", "STEP", "STATUS", "ATTEMPTS", "SECONDS", "DETAIL"], rows)
    _print_end(result)


@command.command("list")
@click.option("--workflow", default="", metavar="NAME", help="Only runs of this workflow.")
@limit_option(20)
@reader_option
@click.pass_obj
def list_(cli: Invocation, workflow: str, limit: int, agent: str | None) -> None:
    """List the runs, newest first."""
    with cli.brain() as brain:
        found = [
            (reader.name, run)
            for reader in cli.readers(brain, agent)
            for run in _engine(cli, brain, reader).runs(limit=min(limit, 1000), workflow=workflow)
        ]
    found = sorted(found, key=lambda each: each[1].started_at, reverse=True)[:limit]

    def row(pair: tuple[str, RunSummary]) -> list[str]:
        name, run = pair
        done, started = f"{run.done} of {run.steps}", format_time(run.started_at)
        return [one_line(run.run), run.workflow, run.status, done, started, one_line(name), preview(run.reason)]

    headings = ["RUN", "WORKFLOW", "STATUS", "DONE", "STARTED", "AGENT", "WHY"]
    print_list(cli, found, headings, row, "No runs yet.", with_agent)


@command.command("validate")
@click.argument("file", type=FILE)
@click.pass_obj
def validate(cli: Invocation, file: Path) -> None:
    """Validate a workflow without running it, and show its steps in order."""
    from engram.agents.workflows.definition import execution_order, read, required_steps

    workflow = read(file)
    stages = execution_order(workflow)
    if cli.json:
        described = [
            {
                "stage": stage.name,
                "steps": [{"name": step.name, "needs": sorted(required_steps(step))} for step in steps],
            }
            for stage, steps in stages
        ]
        print_json({"workflow": workflow.name, "parameters": workflow.parameters, "stages": described})
        return
    counts = f"{plural(len(stages), 'stage')}, {plural(len(workflow.steps), 'step')}"
    click.echo(f"{workflow.name} is valid: {counts}")
    for stage, steps in stages:
        click.echo(f"{stage.name}")
        for step in steps:
            after = f" (after {', '.join(sorted(required_steps(step)))})" if required_steps(step) else ""
            click.echo(f"  {step.name}{after}")


def _engine(cli: Invocation, brain: Engram, agent: AgentHandle, module: str | None = None) -> WorkflowEngine:
    from engram.agents.workflows.runner import WorkflowEngine

    def watch(step: StepResult) -> None:
        if not cli.json:
            detail = _detail(step)
            click.echo(f"{step.status:<8} {step.name}" + (f": {preview(detail)}" if detail else ""))

    steps = {} if module is None else _load_functions(module)
    return WorkflowEngine(agent, brain.store, brain.redactor, brain.sources, steps=steps, watch=watch)


@contextmanager
def _warnings_as_notices(cli: Invocation) -> Iterator[None]:
    """Print log warnings as notices, which are JSON with --json."""

    class NoticeHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cli.notice(record.getMessage())

    log, handler = logging.getLogger("engram"), NoticeHandler(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _owner(cli: Invocation, brain: Engram, agent: str | None, run: str) -> AgentHandle:
    """Return the only agent that has a run of this name. Raises `NotFound` and `InvalidInput`."""
    found = []
    for reader in cli.readers(brain, agent):
        try:
            _engine(cli, brain, reader).status(run)
        except NotFound:
            continue
        found.append((reader.name, reader))
    return only_owner(found, f"run {run!a}", "workflow list")


def _load_functions(name: str) -> dict[str, Callable[..., Any]]:
    """Return the public functions of a module that the user named."""
    try:
        module = _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        message = f"{name} cannot be imported: {type(error).__name__}: {error}."
        raise click.BadParameter(message, param_hint="--steps") from None
    found = inspect.getmembers(module, callable)
    return {
        own: function
        for own, function in found
        if not own.startswith("_") and getattr(function, "__module__", None) == module.__name__
    }


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(STEPS_MODULE, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[STEPS_MODULE] = module  # dataclasses look up the names of their module there
    spec.loader.exec_module(module)
    return module


def _parameters(workflow: Workflow, given: tuple[str, ...]) -> dict[str, Any]:
    """Parse parameters: text where the default is text or missing, else JSON."""
    found = dict[str, Any]()
    for pair in given:
        name, text = split_pair(pair, "--set")
        found[name] = text if isinstance(workflow.parameters.get(name), str | None) else _json(name, text)
    return found


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise click.BadParameter(f"{name} must be JSON, as in the workflow.", param_hint="--set") from None


def _print_and_exit(ctx: click.Context, cli: Invocation, result: ExecutionResult) -> None:
    if cli.json:
        print_json(result.model_dump(mode="json"))
    else:
        _print_end(result)
    ctx.exit(EXIT_CODES[result.status])


def _print_end(result: ExecutionResult) -> None:
    for check in result.checks:
        met = {True: "met", False: "NOT MET", None: "not known"}[check.met]
        click.echo(f"  • Check {one_line(check.name)} before {check.stage}: {met}; {preview(check.verify)}")
    for step in result.steps:
        for solution in step.solutions:
            helped = f"helped {solution.helped:g} of {plural(solution.tried, 'time')}"
            click.echo(f"  • Known solution for {step.name}: {preview(solution.text)} ({helped})")
    click.echo(f"{result.status.capitalize()}: {preview(result.reason)}")
    if result.status != "done":
        flag = " --again" if result.status == "interrupted" and "not ended" in result.reason else ""
        anyway = ", with --ignore-blocks to continue in spite of that" if result.status == "blocked" else ""
        click.echo(f"To continue: engram workflow resume {one_line(result.run)}{flag}{anyway}")


def _detail(step: StepResult) -> str:
    if step.status == "failed":
        from engram.agents.workflows.steps import error_summary

        return error_summary(step.error)
    chosen = step.output.get("how")
    return step.reason or (f"{step.output.get('action')} ({chosen})" if chosen else "")


def _seconds(step: StepResult) -> str:
    return "-" if step.seconds is None else f"{step.seconds:.1f}"
