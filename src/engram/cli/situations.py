"""`engram learning situations`: list and arrange the situations that decision contexts are grouped into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engram.cli.formatting import one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, owner_option, reader_option
from engram.cli.render import preview, print_json, print_list, with_agent

if TYPE_CHECKING:
    from engram.engine import AgentHandle
    from engram.model.situation import Situation

SHOWN_ACTIONS = 3
"""Actions of a situation that a list shows."""


@click.group("situations", cls=CommandGroup, invoke_without_command=True)
@reader_option
@click.pass_context
def situations(ctx: click.Context, agent: str | None) -> None:
    """List and arrange the situations that the contexts of decisions are grouped into.

    A situation is named by its id, its name or one of its contexts. A situation that was renamed, merged, split or
    pinned by hand is not changed automatically. Without a command, they are listed.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, agent=agent)


@situations.command("list")
@reader_option
@click.pass_obj
def list_(cli: Invocation, agent: str | None = None) -> None:
    """List the situations of an agent, those with most decisions first."""
    with cli.brain() as brain:
        found = [(reader.name, one) for reader in cli.readers(brain, agent) for one in reader.situations.list()]
    several = len({name for name, _ in found}) > 1

    def row(pair: tuple[str, Situation]) -> list[str]:
        name, one = pair
        return [
            one.id,
            f"{one.decisions:,}",
            f"{one.wordings:,}",
            "yes" if one.pinned else "no",
            preview(", ".join(list(one.actions)[:SHOWN_ACTIONS])),
            (f"{one_line(name)}: " if several else "") + preview(one.name),
        ]

    headings = ["ID", "DECISIONS", "WORDINGS", "PINNED", "MOST FREQUENT ACTIONS", "SITUATION"]
    print_list(cli, found, headings, row, "No situations yet: the first decisions create them.", with_agent)


@situations.command("show")
@click.argument("situation")
@reader_option
@click.pass_obj
def show(cli: Invocation, situation: str, agent: str | None) -> None:
    """Show one SITUATION: its contexts, and the actions that were taken in it."""
    with cli.brain() as brain:
        found = _owner(cli.readers(brain, agent), situation).situations.get(situation)
    _print(cli, found, f"Situation: {one_line(found.name)}")


@situations.command("rename")
@click.argument("situation")
@click.argument("name")
@owner_option
@click.pass_obj
def rename(cli: Invocation, situation: str, name: str, agent: str | None) -> None:
    """Rename a SITUATION to NAME, and pin it."""
    with cli.brain() as brain:
        found = _owner(cli.readers(brain, agent), situation).situations.rename(situation, name)
    _print(cli, found, f"Renamed and pinned: {one_line(found.name)}")


@situations.command("merge")
@click.argument("situation")
@click.argument("others", nargs=-1, required=True)
@owner_option
@click.pass_obj
def merge(cli: Invocation, situation: str, others: tuple[str, ...], agent: str | None) -> None:
    """Merge OTHERS into a SITUATION, which keeps its name."""
    with cli.brain() as brain:
        found = _owner(cli.readers(brain, agent), situation).situations.merge(situation, others)
    _print(cli, found, f"Merged into {one_line(found.name)}")


@situations.command("split")
@click.argument("situation")
@click.option("--context", "contexts", multiple=True, required=True, help="A context to move; may be repeated.")
@click.option("--name", default="", help="The name of the new situation.")
@owner_option
@click.pass_obj
def split(cli: Invocation, situation: str, contexts: tuple[str, ...], name: str, agent: str | None) -> None:
    """Move contexts out of a SITUATION into a new one."""
    with cli.brain() as brain:
        found = _owner(cli.readers(brain, agent), situation).situations.split(situation, contexts, name)
    _print(cli, found, f"New situation: {one_line(found.name)}")


@situations.command("pin")
@click.argument("situation")
@owner_option
@click.pass_obj
def pin(cli: Invocation, situation: str, agent: str | None) -> None:
    """Pin a SITUATION: no other one is merged with it automatically."""
    _pin(cli, situation, agent, pinned=True)


@situations.command("unpin")
@click.argument("situation")
@owner_option
@click.pass_obj
def unpin(cli: Invocation, situation: str, agent: str | None) -> None:
    """Unpin a SITUATION, so that it may change automatically again."""
    _pin(cli, situation, agent, pinned=False)


def _pin(cli: Invocation, situation: str, agent: str | None, *, pinned: bool) -> None:
    with cli.brain() as brain:
        found = _owner(cli.readers(brain, agent), situation).situations.pin(situation, pinned=pinned)
    _print(cli, found, f"{'Pinned' if pinned else 'No longer pinned'}: {one_line(found.name)}")


def _owner(readers: list[AgentHandle], situation: str) -> AgentHandle:
    """Return the first agent that has a situation of this name. Raises `NotFound`."""
    from engram.errors import NotFound

    for reader in readers[:-1]:
        try:
            reader.situations.get(situation)
        except NotFound:
            continue
        return reader
    if not readers:
        raise NotFound("nothing is recorded yet, so there are no situations")
    readers[-1].situations.get(situation)
    return readers[-1]


def _print(cli: Invocation, found: Situation, title: str) -> None:
    if cli.json:
        print_json(found.model_dump(mode="json"))
        return
    click.echo(f"{title} ({plural(found.decisions, 'decision')}, {plural(found.wordings, 'wording')}, id {found.id})")
    for context in found.contexts:
        click.echo(f"  context: {one_line(context)}")
    for action, times in found.actions.items():
        click.echo(f"  action: {one_line(action)} ({times:,}×)")
