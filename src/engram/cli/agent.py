"""`engram agent`: who the agents are, what they did cycle by cycle, and where each goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import escaped, format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, limit_option
from engram.cli.render import preview, print_fields, print_json, print_table, progress, to_json
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.agents.cycles import Life
    from engram.agents.definitions import Definitions
    from engram.engine import Engram
    from engram.model.agent import Agent, AgentCycle, AgentDefinition, AgentState


@click.group("agent", cls=CommandGroup)
def command() -> None:
    """See who the agents are, what they did cycle by cycle, and where each goes on."""


@command.command("list")
@click.pass_obj
def list_(cli: Invocation) -> None:
    """List the agents, with the version of their definition and how many cycles each has begun."""
    with cli.brain() as brain:
        found = [_summary(brain, name) for name in brain.agents()]
    if cli.json:
        print_json(found)
    elif not found:
        click.echo("No agents yet.")
    else:
        rows = [
            [
                one_line(each["name"]),
                str(each["version"] or "-"),
                f"{each['cycles']:,}",
                f"{each['unfinished']:,}",
                preview(each["description"]) or "-",
            ]
            for each in found
        ]
        print_table(["NAME", "VERSION", "CYCLES", "WITHOUT RESULT", "DESCRIPTION"], rows)


@command.command("show")
@click.argument("name")
@click.option("--history", is_flag=True, help="All versions of its definition, oldest first.")
@click.pass_obj
def show(cli: Invocation, name: str, history: bool) -> None:
    """Show who an agent is: its description, directives and configuration, and how far it has come."""
    with cli.brain() as brain:
        _require(brain, name)
        versions = _definitions(brain).history(name)
        summary = _summary(brain, name)
    if cli.json:
        newest = versions[-1].model_dump(mode="json") if versions else None
        print_json(to_json(versions) if history else {**summary, "definition": newest})
        return
    for agent in versions if history else versions[-1:]:
        _print_agent(agent)
    if not versions:
        click.echo(f"{one_line(name)} has no definition.")
    if not history:
        click.echo(f"{plural(summary['cycles'], 'cycle')}, {summary['unfinished']:,} without a result")


@command.command("create")
@click.argument("name", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="A YAML file, or a folder of them, such as agents/.")
@click.option("--description", default="", help="What it is for.")
@click.option("--directive", "directives", multiple=True, metavar="TEXT", help="What it is told; may be repeated.")
@click.option(
    "--config", "overrides", multiple=True, metavar="NAME=JSON", help="What is different for it; may be repeated."
)
@click.pass_obj
def create(
    cli: Invocation, name: str | None, file: Path | None, description: str, directives: tuple[str, ...], overrides: Any
) -> None:
    """Define an agent, or several from YAML files; a changed definition makes a new version, and the old ones stay."""
    from engram.agents.definitions import read_definitions
    from engram.model.agent import AgentDefinition

    own = bool(name or description or directives or overrides)
    if own == (file is not None) or (own and not name):
        raise click.UsageError("Give a NAME with --description, --directive and --config, or else --file.")
    given = (
        [AgentDefinition(name=name or "", description=description, directives=directives, config=_overrides(overrides))]
        if file is None
        else read_definitions(file)
    )
    if name is not None and Path(name).is_dir():
        cli.notice(f"{name} is a folder, too; `engram agent create --file {name}` defines the agents in it")
    with cli.brain(create=True) as brain:
        made = [_defined(brain, definition) for definition in given]
    if cli.json:
        print_json([{**agent.model_dump(mode="json"), "changed": changed} for agent, changed in made])
        return
    for agent, changed in made:
        how = ("Created" if agent.version == 1 else "Changed") if changed else "Unchanged:"
        click.echo(f"{how} {one_line(agent.name)} (version {agent.version})")


@command.command("erase")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; without a terminal it must be said.")
@click.pass_obj
def erase(cli: Invocation, name: str, yes: bool) -> None:
    """Take away everything of an agent, for good.

    Memories, events, what it learned, copies that others have of it, grants, definitions, cycles, workflows,
    workspaces, sessions and keys go; the audit trail keeps that it happened. Stopped in between, start it again.
    """
    if not yes:
        if cli.json or not sys.stdin.isatty():
            raise click.UsageError("Say --yes to erase an agent.")
        click.confirm(f"Erase everything of {one_line(name)} for good?", abort=True, err=True)
    with cli.brain() as brain, progress(cli, "erasing") as on_progress:
        receipt = brain.retention.erase(name, on_progress)
    if cli.json:
        print_json(receipt.model_dump(mode="json"))
    else:
        click.echo(f"Erased {one_line(receipt.agent)}:")
        print_fields(receipt.removed)


@command.command("cycles")
@click.argument("name")
@click.argument("index", type=click.IntRange(min=1), required=False)
@click.option("--before", type=click.IntRange(min=1), metavar="INDEX", help="Only those before this one.")
@click.option("--workspace", metavar="NAME", help="Only those in this workspace.")
@limit_option(20)
@click.pass_obj
def cycles(
    cli: Invocation, name: str, index: int | None, before: int | None, workspace: str | None, limit: int
) -> None:
    """List the cycles of an agent, newest first, or show one of them whole.

    A cycle without a result is shown as interrupted: it may have been carried out, or be running still.
    """
    with cli.brain() as brain:
        _require(brain, name)
        life = _life(brain, name)
        found = life.cycles(limit, before=before, workspace=workspace) if index is None else [_cycle(life, name, index)]
    if cli.json:
        print_json(to_json(found) if index is None else found[0].model_dump(mode="json"))
    elif index is not None:
        _print_cycle(found[0])
    elif not found:
        click.echo(f"{one_line(name)} has no cycles.")
    else:
        rows = [
            [str(cycle.index), _status(cycle), format_time(cycle.proposal.at), preview(_said(cycle))] for cycle in found
        ]
        print_table(["INDEX", "STATUS", "BEGUN", "PROPOSAL"], rows)


@command.command("forget")
@click.argument("name")
@click.argument("indexes", type=click.IntRange(min=1), nargs=-1, required=True, metavar="INDEX...")
@click.pass_obj
def forget(cli: Invocation, name: str, indexes: tuple[int, ...]) -> None:
    """Forget cycles of an agent: what they proposed, and what came of it.

    What the agent remembered of them stays. A cycle without a result is to be resolved first; then it exits with 5.
    """
    with cli.brain() as brain:
        _require(brain, name)
        life = _life(brain, name)
        gone = [life.forget(index) for index in indexes]
    if cli.json:
        print_json(to_json(gone))
    else:
        click.echo(f"Forgot {plural(len(gone), 'cycle')} of {one_line(name)}")


@command.command("resume")
@click.argument("name")
@click.option("--retry", type=click.IntRange(min=1), metavar="INDEX", help="Do a cycle without a result again.")
@click.option("--abandon", type=click.IntRange(min=1), metavar="INDEX", help="End a cycle without a result.")
@click.option("--reason", default="", help="Why it is abandoned.")
@click.pass_obj
def resume(cli: Invocation, name: str, retry: int | None, abandon: int | None, reason: str) -> None:
    """Show where an agent goes on: its last complete cycle, and those without a result.

    A cycle without a result may have been carried out, and is not done again by itself. --retry begins a new cycle that
    names the old one, which the agent may then carry out; nothing is run here.
    """
    if (retry is None) + (abandon is None) == 0 or (reason and abandon is None):
        raise click.UsageError("Give --retry, or --abandon with its --reason, or neither.")
    with cli.brain() as brain:
        _require(brain, name)
        life = _life(brain, name)
        resolved = None
        if retry is not None:
            resolved = life.resolve(retry, "retry")
        elif abandon is not None:
            resolved = life.resolve(abandon, "abandon", reason=reason)
        standing = life.resume()
    if cli.json:
        print_json((resolved or standing).model_dump(mode="json"))
        return
    if resolved is not None and retry is not None:
        click.echo(f"Cycle {retry} is retried as cycle {resolved.index}: {preview(_said(resolved))}")
        if resolved.proposal.redacted:
            click.echo("  Secrets were taken out of it; put them back before it is carried out.")
    elif resolved is not None:
        click.echo(f"Abandoned cycle {resolved.index}")
    else:
        _print_state(standing)


def _definitions(brain: Engram) -> Definitions:

    return brain.definitions


def _life(brain: Engram, name: str) -> Life:
    from engram.agents.cycles import Life

    return Life(brain.agent(name), brain.store, brain.redactor, brain.sources)


def _require(brain: Engram, name: str) -> None:
    """Raises `NotFound` for an agent that has stored nothing."""
    if name not in brain.agents():
        raise NotFound(f"there is no agent {name}; `engram agent list` shows who there is")


def _cycle(life: Life, name: str, index: int) -> AgentCycle:
    found = life.cycle(index)
    if found is None:
        raise NotFound(f"{name} has no cycle {index}; `engram agent cycles {name}` shows what there is")
    return found


def _summary(brain: Engram, name: str) -> dict[str, Any]:
    agent, standing = _definitions(brain).current(name), _life(brain, name).resume()
    return {
        "name": name,
        "version": agent.version if agent else None,
        "description": agent.description if agent else "",
        "cycles": standing.next_index - 1,
        "unfinished": len(standing.unfinished),
    }


def _defined(brain: Engram, definition: AgentDefinition) -> tuple[Agent, bool]:
    """The agent as it is now, and whether that is new."""
    known = _definitions(brain)
    before, agent = known.current(definition.name), known.define(definition)
    return agent, before is None or before.version != agent.version


def _overrides(given: tuple[str, ...]) -> dict[str, Any]:
    """Each `NAME=JSON`; what is no JSON is a text."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{each!r} is not NAME=VALUE.", param_hint="--config")
        try:
            found[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            found[name.strip()] = value
    return found


def _said(cycle: AgentCycle) -> str:
    from engram.agents.cycles import describe_cycle

    return describe_cycle(cycle)


def _status(cycle: AgentCycle) -> str:
    if cycle.interrupted:
        return "interrupted"
    return f"retried as {cycle.retried_by}" if cycle.retried_by is not None else cycle.status


def _print_agent(agent: Agent) -> None:
    facts = {"name": agent.name, "version": agent.version, "defined": format_time(agent.at), "for": agent.description}
    print_fields(facts)
    for directive in agent.directives:
        click.echo(f"  • {preview(directive)}")
    for name, value in agent.config.items():
        click.echo(f"  {one_line(name)} = {one_line(json.dumps(value, ensure_ascii=False))}")


def _print_cycle(cycle: AgentCycle) -> None:
    proposal, result = cycle.proposal, cycle.result
    facts: dict[str, object] = {
        "cycle": f"{cycle.index} of {cycle.agent}",
        "status": _status(cycle),
        "begun": format_time(proposal.at),
        "ended": format_time(cycle.ended_at),
        "proposal": _said(cycle),
        "reasoning": proposal.reasoning,
        "plan": "; ".join(proposal.plan),
        "retry of": proposal.retry_of,
        "reason": cycle.reason,
        "error": result.error.message if result and result.error else "",
        "artifacts": ", ".join(result.artifacts) if result else "",
    }
    print_fields({name: value for name, value in facts.items() if value not in (None, "")})
    if result is not None and result.output is not None:
        output = result.output if isinstance(result.output, str) else json.dumps(result.output, ensure_ascii=False)
        click.echo(escaped(output))


def _print_state(standing: AgentState) -> None:
    name, last = one_line(standing.agent), standing.last_complete
    click.echo(f"{name} goes on with cycle {standing.next_index}")
    if last is not None:
        click.echo(
            f"  Last complete: cycle {last.index}, {last.status} {format_time(last.ended_at)}: {preview(_said(last))}"
        )
    for cycle in standing.unfinished:
        click.echo(
            f"  Without a result: cycle {cycle.index}, begun {format_time(cycle.proposal.at)}: {preview(_said(cycle))}"
        )
    if standing.unfinished:
        click.echo("  It may have been carried out, or be running still: decide with --retry INDEX or --abandon INDEX.")
