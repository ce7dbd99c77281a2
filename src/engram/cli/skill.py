"""`engram skill`: workflows that are kept in versions, found by what is asked, and judged by how they did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import escaped, format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, agent_option, limit_option, owner_option, reader_option
from engram.cli.render import preview, print_json, print_table, to_json
from engram.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.memories.procedural import ProceduralMemory
    from engram.model.skill import Skill

STDIN_LIMIT = 1_000_001


@click.group("skill", cls=CommandGroup)
def command() -> None:
    """Keep workflows as skills: YAML with triggers, parameters and steps.

    A changed skill is a new version; the old ones stay readable. Its uses are decisions whose action is
    skill:NAME@VERSION, and how they went decides how readily it is offered.
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
    if cli.json:
        print_json([{"agent": name, **skill.model_dump(mode="json")} for name, skill in found])
    elif not found:
        click.echo("No skills yet.")
    else:
        rows = [
            [
                skill.name,
                str(skill.version),
                f"{skill.attempts:,}",
                _rate(skill),
                one_line(name),
                preview(skill.description),
            ]
            for name, skill in found
        ]
        print_table(["NAME", "VERSION", "USES", "SUCCESS", "AGENT", "DESCRIPTION"], rows)


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
        skill = _known(skills, name, version)
    if cli.json:
        print_json(skill.model_dump(mode="json"))
        return
    click.echo(f"# version {skill.version} of {one_line(owner)}, added {format_time(skill.added_at)}; {_did(skill)}")
    click.echo(escaped(to_yaml(skill.definition)), nl=False)


@command.command("add")
@click.argument("file", required=False)
@click.option("--text", metavar="YAML", help="The skill itself, instead of a file.")
@agent_option
@click.pass_obj
def add(cli: Invocation, file: str | None, text: str | None, agent: str | None) -> None:
    """Keep the skill in a YAML file, or in standard input (-).

    Adding it again changes nothing; a changed one becomes the next version.
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
        said = "Added" if new else "Nothing changed:"
        click.echo(f"{said} {skill.name}, version {skill.version} ({skill.id})")


@command.command("match")
@click.argument("request")
@limit_option(3)
@reader_option
@click.pass_obj
def match(cli: Invocation, request: str, limit: int, agent: str | None) -> None:
    """Find the skills that fit a request, best first."""
    with cli.brain() as brain:
        found = [(name, one) for name, skills in _all(cli, brain, agent) for one in skills.match(request, limit)]
    found = sorted(found, key=lambda each: -each[1].score)[:limit]
    if cli.json:
        print_json([{"agent": name, **one.model_dump(mode="json")} for name, one in found])
        return
    if not found:
        click.echo("No skill fits.")
    for name, one in found:
        click.echo(f"  • {one.skill.name} (version {one.skill.version} of {one_line(name)}), score {one.score:.2f}")
        click.echo(f"    {preview(one.why)}")
        if one.parameters:
            told = ", ".join(f"{key}={value}" for key, value in one.parameters.items())
            click.echo(f"    it tells {preview(told)}")


@command.command("render")
@click.argument("name")
@click.option(
    "--set", "values", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated. A list has commas."
)
@version_option
@owner_option
@click.pass_obj
def render(cli: Invocation, name: str, values: tuple[str, ...], version: int | None, agent: str | None) -> None:
    """Print the steps of a skill with the parameters filled in."""
    from engram.memories.skills import parse_values

    texts = dict(_pair(value) for value in values)
    with cli.brain() as brain:
        _, skills = _owner(cli, brain, name, agent)
        skill = _known(skills, name, version)
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
    """List the versions of a skill, the oldest first."""
    with cli.brain() as brain:
        versions = _owner(cli, brain, name, agent)[1].history(name)
    if cli.json:
        print_json(to_json(versions))
        return
    rows = [
        [str(one.version), format_time(one.added_at), f"{one.attempts:,}", _rate(one), one.id, preview(one.description)]
        for one in versions
    ]
    print_table(["VERSION", "ADDED", "USES", "SUCCESS", "ID", "DESCRIPTION"], rows)


@command.command("promote")
@click.argument("pattern")
@click.option("--name", metavar="NAME", help="What to call it. Default: the name of the pattern.")
@owner_option
@click.pass_obj
def promote(cli: Invocation, pattern: str, name: str | None, agent: str | None) -> None:
    """Make a skill of a success pattern, which is named by its name or id."""
    with cli.brain() as brain:
        known = [
            (reader, one)
            for reader in cli.readers(brain, agent)
            for one in reader.learning.synthesis().patterns
            if pattern in {one.name, one.pattern_id}
        ]
        if len(known) > 1:
            names = ", ".join(reader.name for reader, _ in known)
            raise InvalidInput(f"{pattern} is known to {names}; say whose is meant with --agent, or give its id")
        if not known:
            raise NotFound(
                f"there is no success pattern {pattern}; `engram learning patterns --type success` shows what there is"
            )
        skill = _skills(known[0][0]).promote(known[0][1], name=name)
    if cli.json:
        print_json(skill.model_dump(mode="json"))
    else:
        click.echo(f"Made {skill.name}, version {skill.version} ({skill.id}), of {plural(len(skill.steps), 'step')}")


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
    """Whoever has a skill. Raises `NotFound`, or `InvalidInput` if several have it."""
    having = [(owner, skills) for owner, skills in _all(cli, brain, agent) if skills.history(name)]
    if len(having) > 1:
        names = ", ".join(owner for owner, _ in having)
        raise InvalidInput(f"{names} have a skill {name} each; say whose is meant with --agent")
    if not having:
        raise NotFound(f"there is no skill {name}; `engram skill list` shows what there is")
    return having[0]


def _known(skills: ProceduralMemory, name: str, version: int | None) -> Skill:
    skill = skills.get(name, version)
    if skill is None:
        raise NotFound(f"{name} has no version {version}; `engram skill history {name}` shows what there is")
    return skill


def _pair(value: str) -> tuple[str, str]:
    name, equals, text = value.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{value!r} is not NAME=VALUE.", param_hint="--set")
    return name.strip(), text


def _rate(skill: Skill) -> str:
    return "-" if skill.success_rate is None else f"{skill.success_rate:.0%}"


def _did(skill: Skill) -> str:
    return (
        f"{plural(skill.attempts, 'use')}, {_rate(skill)} success rate"
        if skill.success_rate is not None
        else "never used"
    )
