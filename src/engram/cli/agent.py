"""`engram agent`: define agents, and list, resume and delete their cycles."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import escaped, format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, limit_option, split_pair
from engram.cli.render import preview, print_fields, print_json, print_list, print_table, progress, to_json
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.agents.cycles import Life
    from engram.agents.definitions import Definitions
    from engram.engine import Engram
    from engram.model.agent import Agent, AgentCycle, AgentDefinition, AgentState


@click.group("agent", cls=CommandGroup)
def command() -> None:
    """Define agents, and see, resume and delete their cycles."""


@command.command("list")
@click.pass_obj
def list_(cli: Invocation) -> None:
    """List the agents, with the version of their definition and the number of cycles each has begun."""
    with cli.brain() as brain:
        found = [_summary(brain, name) for name in brain.agents()]

    def row(agent: dict[str, Any]) -> list[str]:
        counts = [f"{agent['cycles']:,}", f"{agent['unfinished']:,}"]
        return [one_line(agent["name"]), str(agent["version"] or "-"), *counts, preview(agent["description"]) or "-"]

    headings = ["NAME", "VERSION", "CYCLES", "WITHOUT RESULT", "DESCRIPTION"]
    print_list(cli, found, headings, row, "No agents yet.", as_json=dict)


@command.command("show")
@click.argument("name")
@click.option("--history", is_flag=True, help="Show all versions of its definition, oldest first.")
@click.pass_obj
def show(cli: Invocation, name: str, history: bool) -> None:
    """Show an agent: its description, directives, configuration, and number of cycles."""
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
@click.option(
    "--directive", "directives", multiple=True, metavar="TEXT", help="An instruction to the agent; may be repeated."
)
@click.option(
    "--config", "overrides", multiple=True, metavar="NAME=JSON", help="A configuration value; may be repeated."
)
@click.pass_obj
def create(
    cli: Invocation, name: str | None, file: Path | None, description: str, directives: tuple[str, ...], overrides: Any
) -> None:
    """Define an agent, or several from YAML files; a changed definition becomes a new version, and old ones stay."""
    from engram.agents.definitions import read_definitions
    from engram.model.agent import AgentDefinition

    own = bool(name or description or directives or overrides)
    if own == (file is not None) or (own and not name):
        raise click.UsageError("Give either a NAME with --description, --directive and --config, or --file.")
    given = (
        [AgentDefinition(name=name or "", description=description, directives=directives, config=_overrides(overrides))]
        if file is None
        else read_definitions(file)
    )
    if name is not None and Path(name).is_dir():
        cli.notice(f"{name} is also a folder; `engram agent create --file {name}` defines the agents in it")
    with cli.brain(create=True) as brain:
        defined = [_define(brain, definition) for definition in given]
    if cli.json:
        print_json([{**agent.model_dump(mode="json"), "changed": changed} for agent, changed in defined])
        return
    for agent, changed in defined:
        verb = ("Created" if agent.version == 1 else "Changed") if changed else "Unchanged:"
        click.echo(f"{verb} {one_line(agent.name)} (version {agent.version})")


@command.command("erase")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; required without a terminal.")
@click.pass_obj
def erase(cli: Invocation, name: str, yes: bool) -> None:
    """Delete everything of an agent, for good.

    It deletes memories, events, what it learned, copies that other agents have, grants, definitions, cycles, workflows,
    workspaces, sessions and keys. The audit trail records the deletion. If it is interrupted, run it again.
    """
    if not yes:
        if cli.json or not sys.stdin.isatty():
            raise click.UsageError("Give --yes to erase an agent.")
        click.confirm(f"Delete everything of {one_line(name)} for good?", abort=True, err=True)
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
    """List the cycles of an agent, newest first, or show one of them in full.

    A cycle without a result is shown as interrupted: it may have been carried out, or may still be running.
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
            [str(cycle.index), _status(cycle), format_time(cycle.proposal.at), preview(_describe(cycle))]
            for cycle in found
        ]
        print_table(["INDEX", "STATUS", "BEGUN", "PROPOSAL"], rows)


@command.command("forget")
@click.argument("name")
@click.argument("indexes", type=click.IntRange(min=1), nargs=-1, required=True, metavar="INDEX...")
@click.pass_obj
def forget(cli: Invocation, name: str, indexes: tuple[int, ...]) -> None:
    """Delete cycles of an agent: proposals and results.

    Memories that the agent stored about them stay. A cycle without a result must be resolved first (exit code 5).
    """
    with cli.brain() as brain:
        _require(brain, name)
        life = _life(brain, name)
        deleted = [life.forget(index) for index in indexes]
    if cli.json:
        print_json(to_json(deleted))
    else:
        click.echo(f"Forgot {plural(len(deleted), 'cycle')} of {one_line(name)}")


@command.command("resume")
@click.argument("name")
@click.option("--retry", type=click.IntRange(min=1), metavar="INDEX", help="Begin a cycle without a result again.")
@click.option(
    "--abandon", type=click.IntRange(min=1), metavar="INDEX", help="Mark a cycle without a result as abandoned."
)
@click.option("--reason", default="", help="The reason for --abandon.")
@click.pass_obj
def resume(cli: Invocation, name: str, retry: int | None, abandon: int | None, reason: str) -> None:
    """Show where an agent continues: its last complete cycle, and the cycles without a result.

    A cycle without a result may have been carried out, so it is not repeated automatically. --retry begins a new cycle
    that refers to the old one; the agent may then carry it out. This command itself runs nothing.
    """
    if (retry is None) + (abandon is None) == 0 or (reason and abandon is None):
        raise click.UsageError("Give either --retry, or --abandon with an optional --reason, or neither.")
    with cli.brain() as brain:
        _require(brain, name)
        life = _life(brain, name)
        resolved = None
        if retry is not None:
            resolved = life.resolve(retry, "retry")
        elif abandon is not None:
            resolved = life.resolve(abandon, "abandon", reason=reason)
        agent_state = life.resume()
    if cli.json:
        print_json((resolved or agent_state).model_dump(mode="json"))
        return
    if resolved is not None and retry is not None:
        click.echo(f"Cycle {retry} is retried as cycle {resolved.index}: {preview(_describe(resolved))}")
        if resolved.proposal.redacted:
            click.echo("  Secrets were redacted from it; put them back before it is carried out.")
    elif resolved is not None:
        click.echo(f"Abandoned cycle {resolved.index}")
    else:
        _print_state(agent_state)


def _definitions(brain: Engram) -> Definitions:

    return brain.definitions


def _life(brain: Engram, name: str) -> Life:
    from engram.agents.cycles import Life

    return Life(brain.agent(name), brain.store, brain.redactor, brain.sources)


def _require(brain: Engram, name: str) -> None:
    """Raise `NotFound` if the agent has stored nothing."""
    if name not in brain.agents():
        raise NotFound(f"there is no agent {name}; `engram agent list` shows who there is")


def _cycle(life: Life, name: str, index: int) -> AgentCycle:
    found = life.cycle(index)
    if found is None:
        raise NotFound(f"{name} has no cycle {index}; `engram agent cycles {name}` shows what there is")
    return found


def _summary(brain: Engram, name: str) -> dict[str, Any]:
    agent, state = _definitions(brain).current(name), _life(brain, name).resume()
    return {
        "name": name,
        "version": agent.version if agent else None,
        "description": agent.description if agent else "",
        "cycles": state.next_index - 1,
        "unfinished": len(state.unfinished),
    }


def _define(brain: Engram, definition: AgentDefinition) -> tuple[Agent, bool]:
    """Store a definition; return the agent and True if it changed."""
    known = _definitions(brain)
    before, agent = known.current(definition.name), known.define(definition)
    return agent, before is None or before.version != agent.version


def _overrides(given: tuple[str, ...]) -> dict[str, Any]:
    """Parse each `NAME=JSON`; a value that is not JSON is taken as text."""
    found: dict[str, Any] = {}
    for each in given:
        name, value = split_pair(each, "--config")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def _describe(cycle: AgentCycle) -> str:
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
        "proposal": _describe(cycle),
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


def _print_state(state: AgentState) -> None:
    name, last = one_line(state.agent), state.last_complete
    click.echo(f"{name} continues with cycle {state.next_index}")
    if last is not None:
        ended = f"{last.status} {format_time(last.ended_at)}"
        click.echo(f"  Last complete: cycle {last.index}, {ended}: {preview(_describe(last))}")
    for cycle in state.unfinished:
        click.echo(
            f"  Without a result: cycle {cycle.index}, begun {format_time(cycle.proposal.at)}: "
            f"{preview(_describe(cycle))}"
        )
    if state.unfinished:
        click.echo("  It may have been carried out, or may still be running: choose --retry INDEX or --abandon INDEX.")
