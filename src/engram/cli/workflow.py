"""`engram workflow`: steps that are carried out with memory, and go on where they stopped."""

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
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, agent_option, limit_option, owner_option, reader_option
from engram.cli.render import preview, print_json, print_table
from engram.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from engram.agents.workflows.runner import WorkflowEngine
    from engram.engine import AgentHandle, Engram
    from engram.model.workflow import ExecutionResult, StepResult, Workflow

NOT_ALLOWED = 4
EXITS = {"done": 0, "failed": 1, "interrupted": 1, "blocked": NOT_ALLOWED}
STEPS = "engram_steps"
"""What a module is called that comes from a file."""
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])


@click.group("workflow", cls=CommandGroup)
def command() -> None:
    """Carry out workflows with memory.

    What was learned decides, known failures stop a step before it starts, and how each step went is recorded. A run
    that was killed goes on where it stopped.
    """


def _permissions(command: F) -> F:
    """What a run may do, and where its functions come from."""
    for option in reversed(
        (
            click.option("--allow-commands", is_flag=True, help="Really run the commands of steps and checks."),
            click.option("--ignore-blocks", is_flag=True, help="Go on in spite of known failures and unmet checks."),
            click.option(
                "--steps",
                "module",
                metavar="MODULE",
                help="A Python module or .py file whose public functions steps may run, besides installed ones.",
            ),
        )
    ):
        command = option(command)
    return command


@command.command("run")
@click.argument("file", type=FILE)
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated.")
@click.option("--id", "id", metavar="NAME", help="What to call the run. Default: a new id.")
@_permissions
@agent_option
@click.pass_context
def run(
    ctx: click.Context, /, file: Path, given: tuple[str, ...], id: str | None, agent: str | None, **options: Any
) -> None:
    """Carry out the workflow in a YAML file.

    It exits with 0 when all is done, with 1 when a step failed, and with 4 when a check or a known failure stopped it.
    Nothing is begun if the workflow cannot be carried out, or has commands and they are not allowed.
    """
    from engram.agents.workflows.definition import read

    cli = ctx.ensure_object(Invocation)
    workflow = read(file)
    parameters = _parameters(workflow, given)
    with cli.brain(create=True) as brain:
        engine = _engine(cli, brain, cli.writer(brain, agent), options.pop("module"))
        name = id or brain.sources.new_id()
        cli.notice(f"run {name} of {workflow.name}")
        with _heard(cli):
            result = engine.run(workflow, parameters, id=name, **options)
    _finish(ctx, cli, result)


@command.command("resume")
@click.argument("run", metavar="RUN")
@click.option("--again", is_flag=True, help="Repeat a step that was started and not ended.")
@_permissions
@owner_option
@click.pass_context
def resume(ctx: click.Context, /, run: str, agent: str | None, **options: Any) -> None:
    """Go on with a run where it stopped.

    What is done is not repeated, and a failed step is tried again. A step that was started and not ended may have had
    its effect: it is repeated if the workflow says that it is idempotent, or with --again. Exit codes are those of run.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        owner = _owner(cli, brain, agent, run)
        engine = _engine(cli, brain, owner, options.pop("module"))
        with _heard(cli):
            result = engine.resume(run, **options)
    _finish(ctx, cli, result)


@command.command("status")
@click.argument("run", metavar="RUN")
@owner_option
@click.pass_obj
def status(cli: Invocation, run: str, agent: str | None) -> None:
    """Show how far a run has come: its steps, and what the memory knows about those that failed."""
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
    """List the runs, the newest first."""
    with cli.brain() as brain:
        found = [
            (reader.name, run)
            for reader in cli.readers(brain, agent)
            for run in _engine(cli, brain, reader).runs(limit=min(limit, 1000), workflow=workflow)
        ]
    found = sorted(found, key=lambda each: each[1].started_at, reverse=True)[:limit]
    if cli.json:
        print_json([{"agent": name, **run.model_dump(mode="json")} for name, run in found])
    elif not found:
        click.echo("No runs yet.")
    else:
        rows = [
            [
                one_line(run.run),
                run.workflow,
                run.status,
                f"{run.done} of {run.steps}",
                format_time(run.started_at),
                one_line(name),
                preview(run.reason),
            ]
            for name, run in found
        ]
        print_table(["RUN", "WORKFLOW", "STATUS", "DONE", "STARTED", "AGENT", "WHY"], rows)


@command.command("validate")
@click.argument("file", type=FILE)
@click.pass_obj
def validate(cli: Invocation, file: Path) -> None:
    """Check a workflow without carrying anything out, and show its steps in their order."""
    from engram.agents.workflows.definition import execution_order, read, required_steps

    workflow = read(file)
    stages = execution_order(workflow)
    if cli.json:
        shown = [
            {
                "stage": stage.name,
                "steps": [{"name": step.name, "needs": sorted(required_steps(step))} for step in steps],
            }
            for stage, steps in stages
        ]
        print_json({"workflow": workflow.name, "parameters": workflow.parameters, "stages": shown})
        return
    counts = f"{plural(len(stages), 'stage')}, {plural(len(workflow.steps), 'step')}"
    click.echo(f"{workflow.name} can be carried out: {counts}")
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

    steps = {} if module is None else _functions(module)
    return WorkflowEngine(agent, brain.store, brain.redactor, brain.sources, steps=steps, watch=watch)


@contextmanager
def _heard(cli: Invocation) -> Iterator[None]:
    """Say warnings as all notices are said, so that whoever reads JSON can read these, too."""

    class Noticed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cli.notice(record.getMessage())

    log, handler = logging.getLogger("engram"), Noticed(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _owner(cli: Invocation, brain: Engram, agent: str | None, run: str) -> AgentHandle:
    """Whose run it is. Raises `NotFound`, or `InvalidInput` if several have one of that name."""
    having = []
    for reader in cli.readers(brain, agent):
        try:
            _engine(cli, brain, reader).status(run)
        except NotFound:
            continue
        having.append(reader)
    if len(having) > 1:
        names = ", ".join(owner.name for owner in having)
        raise InvalidInput(f"{run} is a run of {names}; say whose is meant with --agent")
    if not having:
        raise NotFound(f"there is no run {run!a}; `engram workflow list` shows what there is")
    return having[0]


def _functions(name: str) -> dict[str, Callable[..., Any]]:
    """The public functions of a module that the user named, by name."""
    try:
        module = _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a module of the user's may raise anything
        said = f"{name} cannot be imported: {type(error).__name__}: {error}."
        raise click.BadParameter(said, param_hint="--steps") from None
    found = inspect.getmembers(module, callable)
    return {
        own: function
        for own, function in found
        if not own.startswith("_") and getattr(function, "__module__", None) == module.__name__
    }


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(STEPS, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[STEPS] = module  # where dataclasses look for the names of their module
    spec.loader.exec_module(module)
    return module


def _parameters(workflow: Workflow, given: tuple[str, ...]) -> dict[str, Any]:
    """What was set: text where the workflow has text or nothing, else JSON."""
    found = dict[str, Any]()
    for pair in given:
        name, separator, text = pair.partition("=")
        if not separator:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE.", param_hint="--set")
        found[name] = text if isinstance(workflow.parameters.get(name), str | None) else _json(name, text)
    return found


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise click.BadParameter(f"{name} must be JSON, as in the workflow.", param_hint="--set") from None


def _finish(ctx: click.Context, cli: Invocation, result: ExecutionResult) -> None:
    if cli.json:
        print_json(result.model_dump(mode="json"))
    else:
        _print_end(result)
    ctx.exit(EXITS[result.status])


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
        again = " --again" if result.status == "interrupted" and "not ended" in result.reason else ""
        anyway = ", with --ignore-blocks if it is to go on in spite of that" if result.status == "blocked" else ""
        click.echo(f"To go on: engram workflow resume {one_line(result.run)}{again}{anyway}")


def _detail(step: StepResult) -> str:
    if step.status == "failed":
        from engram.agents.workflows.steps import error_summary

        return error_summary(step.error)
    chosen = step.output.get("how")
    return step.reason or (f"{step.output.get('action')} ({chosen})" if chosen else "")


def _seconds(step: StepResult) -> str:
    return "-" if step.seconds is None else f"{step.seconds:.1f}"
