"""`engram skill`: store skills in versions, find them by request, and measure their success."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import escaped, format_time, one_line, plural
from engram.cli.invocation import Invocation, only_owner
from engram.cli.options import CommandGroup, agent_option, limit_option, owner_option, reader_option, split_pair
from engram.cli.render import preview, print_json, print_list, print_model, with_agent
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.memories.procedural import ProceduralMemory
    from engram.model.skill import Skill

STDIN_LIMIT = 1_000_001


@click.group("skill", cls=CommandGroup)
def command() -> None:
    """Store skills: procedures in YAML with triggers, parameters and steps.

    A changed skill becomes a new version; the old ones stay readable. A use of a skill is a decision with the action
    skill:NAME@VERSION, and the outcomes of its uses decide how high it ranks.
    """


version_option = click.option(
    "--version", type=click.IntRange(min=1), metavar="N", help="This version. Default: the newest."
)


@command.command("list")
@reader_option
@click.pass_obj
def list_(cli: Invocation, agent: str | None) -> None:
    """List the skills, each in its newest version."""
    with cli.brain() as brain:
        found = [(name, skill) for name, skills in _all(cli, brain, agent) for skill in skills.skills()]

    def row(pair: tuple[str, Skill]) -> list[str]:
        name, skill = pair
        uses, description = f"{skill.attempts:,}", preview(skill.description)
        return [skill.name, str(skill.version), uses, _rate(skill), one_line(name), description]

    headings = ["NAME", "VERSION", "USES", "SUCCESS", "AGENT", "DESCRIPTION"]
    print_list(cli, found, headings, row, "No skills yet.", with_agent)


@command.command("show")
@click.argument("name")
@version_option
@owner_option
@click.pass_obj
def show(cli: Invocation, name: str, version: int | None, agent: str | None) -> None:
    """Print a skill as YAML, as `engram skill add` reads it."""
    from engram.memories.skills import to_yaml

    with cli.brain() as brain:
        owner, skills = _owner(cli, brain, name, agent)
        skill = _version(skills, name, version)
    if cli.json:
        print_json(skill.model_dump(mode="json"))
        return
    click.echo(f"# version {skill.version} of {one_line(owner)}, added {format_time(skill.added_at)}; {_record(skill)}")
    click.echo(escaped(to_yaml(skill.definition)), nl=False)


@command.command("add")
@click.argument("file", required=False)
@click.option("--text", metavar="YAML", help="The YAML itself instead of a file.")
@agent_option
@click.pass_obj
def add(cli: Invocation, file: str | None, text: str | None, agent: str | None) -> None:
    """Store the skill in a YAML file, or on standard input (-).

    Adding the same skill again changes nothing; a changed one becomes the next version.
    """
    if (file is None) == (text is None):
        raise click.UsageError("Give a file, - for standard input, or --text.")
    from engram.memories.skills import read_skill

    definition = read_skill(_stdin() if file == "-" else Path(file) if file is not None else text or "")
    with cli.brain(create=True) as brain:
        skills = _skills(cli.writer(brain, agent))
        before = len(skills.history(definition.name))
        skill = skills.add(definition)
        new = len(skills.history(skill.name)) > before
    if cli.json:
        print_json({"new": new, **skill.model_dump(mode="json")})
    else:
        click.echo(f"{'Added' if new else 'Unchanged:'} {skill.name}, version {skill.version} ({skill.id})")


@command.command("match")
@click.argument("request")
@limit_option(3)
@reader_option
@click.pass_obj
def match(cli: Invocation, request: str, limit: int, agent: str | None) -> None:
    """Find the skills that match a request, best first."""
    with cli.brain() as brain:
        found = [(name, one) for name, skills in _all(cli, brain, agent) for one in skills.match(request, limit)]
    found = sorted(found, key=lambda each: -each[1].score)[:limit]
    if cli.json:
        print_json([{"agent": name, **one.model_dump(mode="json")} for name, one in found])
        return
    if not found:
        click.echo("No skill matches.")
    for name, one in found:
        click.echo(f"  • {one.skill.name} (version {one.skill.version} of {one_line(name)}), score {one.score:.2f}")
        click.echo(f"    {preview(one.why)}")
        if one.parameters:
            values = ", ".join(f"{key}={value}" for key, value in one.parameters.items())
            click.echo(f"    parameters in the request: {preview(values)}")


@command.command("render")
@click.argument("name")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter; may be repeated. Separate the items of a list by commas.",
)
@version_option
@owner_option
@click.pass_obj
def render(cli: Invocation, name: str, values: tuple[str, ...], version: int | None, agent: str | None) -> None:
    """Print the steps of a skill with the parameters filled in."""
    from engram.memories.skills import parse_values

    texts = dict(split_pair(value, "--set") for value in values)
    with cli.brain() as brain:
        _, skills = _owner(cli, brain, name, agent)
        skill = _version(skills, name, version)
        steps = skills.render(name, parse_values(skill, texts), version=skill.version)
    if cli.json:
        named = zip(skill.steps, steps, strict=True)
        print_json([{"name": step.name, "kind": step.kind, "text": text} for step, text in named])
        return
    for number, text in enumerate(steps, 1):
        first, *rest = escaped(text).split("\n")
        click.echo(f"{number}. {first}")
        for line in rest:
            click.echo(f"   {line}".rstrip())


@command.command("history")
@click.argument("name")
@owner_option
@click.pass_obj
def history(cli: Invocation, name: str, agent: str | None) -> None:
    """List the versions of a skill, oldest first."""
    with cli.brain() as brain:
        versions = _owner(cli, brain, name, agent)[1].history(name)

    def row(skill: Skill) -> list[str]:
        uses, description = f"{skill.attempts:,}", preview(skill.description)
        return [str(skill.version), format_time(skill.added_at), uses, _rate(skill), skill.id, description]

    print_list(cli, versions, ["VERSION", "ADDED", "USES", "SUCCESS", "ID", "DESCRIPTION"], row, "")


@command.command("promote")
@click.argument("pattern")
@click.option("--name", metavar="NAME", help="The name of the skill. Default: the name of the pattern.")
@owner_option
@click.pass_obj
def promote(cli: Invocation, pattern: str, name: str | None, agent: str | None) -> None:
    """Make a skill from a success pattern, given by name or id."""
    with cli.brain() as brain:
        found = [
            (reader.name, (reader, one))
            for reader in cli.readers(brain, agent)
            for one in reader.learning.synthesis().patterns
            if pattern in {one.name, one.pattern_id}
        ]
        owner, success = only_owner(found, f"success pattern {pattern}", "learning patterns --type success")
        skill = _skills(owner).promote(success, name=name)
    steps = plural(len(skill.steps), "step")
    print_model(cli, skill, f"Made {skill.name}, version {skill.version} ({skill.id}), with {steps}")


def _stdin() -> bytes:
    if sys.stdin is None:
        raise click.UsageError("There is no standard input; give a file.")
    return sys.stdin.buffer.read(STDIN_LIMIT)


def _skills(agent: AgentHandle) -> ProceduralMemory:
    from engram.memories.procedural import ProceduralMemory

    return ProceduralMemory(agent)


def _all(cli: Invocation, brain: Engram, agent: str | None) -> list[tuple[str, ProceduralMemory]]:
    return [(reader.name, _skills(reader)) for reader in cli.readers(brain, agent)]


def _owner(cli: Invocation, brain: Engram, name: str, agent: str | None) -> tuple[str, ProceduralMemory]:
    """Return the only agent that has a skill, and its skills. Raises `NotFound` and `InvalidInput`."""
    found = [(owner, (owner, skills)) for owner, skills in _all(cli, brain, agent) if skills.history(name)]
    return only_owner(found, f"skill {name}", "skill list")


def _version(skills: ProceduralMemory, name: str, version: int | None) -> Skill:
    skill = skills.get(name, version)
    if skill is None:
        raise NotFound(f"{name} has no version {version}; `engram skill history {name}` shows what there is")
    return skill


def _rate(skill: Skill) -> str:
    return "-" if skill.success_rate is None else f"{skill.success_rate:.0%}"


def _record(skill: Skill) -> str:
    return (
        f"{plural(skill.attempts, 'use')}, {_rate(skill)} success rate"
        if skill.success_rate is not None
        else "never used"
    )
