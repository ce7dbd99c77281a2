"""`engram fact`: what agents know as facts, when it holds, and where it contradicts itself."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from engram.cli.options import Group, limit_option, reader_option, when
from engram.cli.render import print_json, print_table
from engram.cli.state import State
from engram.cli.text import inline, moment
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.model.fact import Fact

as_of_option = click.option("--as-of", type=when, help="What held then: a date, or how long ago (7d).")


@click.group("fact", cls=Group)
def command() -> None:
    """Ask what is known as facts.

    A newer fact ends an older one, which stays to be asked for. Two that claim to hold at the same time and cannot are
    a contradiction.
    """


@command.command("list")
@click.argument("subject", required=False)
@click.option("--predicate", metavar="TEXT", help="Only facts that say this, such as 'lives in'.")
@click.option("--history", is_flag=True, help="Also what has ended; needs a subject.")
@as_of_option
@limit_option(50)
@reader_option
@click.pass_obj
def list_(
    state: State,
    subject: str | None,
    predicate: str | None,
    history: bool,
    as_of: datetime | None,
    limit: int,
    agent: str | None,
) -> None:
    """List what holds, of a subject or of all, the newest first."""
    if history and (subject is None or as_of is not None):
        raise click.UsageError("--history needs a subject, and no --as-of.")
    found: list[tuple[str, Fact]] = []
    with state.brain() as brain:
        for reader in state.readers(brain, agent):
            known = reader.semantic
            if history and subject is not None:
                facts = known.history(subject, predicate)
            else:
                facts = known.facts(subject, predicate, as_of=as_of, denials=True)
            found += [(reader.name, fact) for fact in facts]
    found = sorted(found, key=lambda each: each[1].order, reverse=True)[:limit]
    if state.json:
        print_json([_told(name, fact) for name, fact in found])
    elif not found:
        click.echo("No facts are known.")
    else:
        rows = [
            [fact.id, moment(fact.valid_from), moment(fact.valid_until) or "-", inline(name), inline(fact.text)]
            for name, fact in found
        ]
        print_table(["ID", "SINCE", "UNTIL", "AGENT", "FACT"], rows)


@command.command("ask")
@click.argument("subject")
@click.argument("predicate")
@as_of_option
@reader_option
@click.pass_obj
def ask(state: State, subject: str, predicate: str, as_of: datetime | None, agent: str | None) -> None:
    """Say the newest value that holds, such as `engram fact ask Bob "lives in"`; exits with 3 if none is known."""
    with state.brain() as brain:
        asked = state.readers(brain, agent)
        known = [(reader.name, reader.semantic.ask(subject, predicate, as_of=as_of)) for reader in asked]
    found = [(name, fact) for name, fact in known if fact is not None]
    if not found:
        raise NotFound(f"nothing is known of {subject!a} {predicate!a}; `engram fact list` shows what is")
    name, fact = max(found, key=lambda each: each[1].order)
    if state.json:
        print_json(_told(name, fact))
    else:
        click.echo(f"{inline(fact.object)} (since {moment(fact.valid_from)}, {inline(name)}, {fact.id})")


@command.command("contradictions")
@click.argument("subject", required=False)
@as_of_option
@reader_option
@click.pass_obj
def contradictions(state: State, subject: str | None, as_of: datetime | None, agent: str | None) -> None:
    """Show facts that cannot both hold, the latest first."""
    with state.brain() as brain:
        found = [
            (reader.name, pair)
            for reader in state.readers(brain, agent)
            for pair in reader.semantic.contradictions(subject, as_of=as_of)
        ]
    if state.json:
        print_json([{"agent": name, **pair.model_dump(mode="json")} for name, pair in found])
        return
    if not found:
        click.echo("No contradictions are known.")
    for name, pair in found:
        until = f" until {moment(pair.until)}" if pair.until is not None else ""
        about = f"{inline(pair.subject)} {inline(pair.predicate)}"
        click.echo(f"{about}: {pair.reason} since {moment(pair.since)}{until} ({inline(name)})")
        for fact in pair.facts:
            click.echo(f"  {fact.id}  {inline(fact.text)}, since {moment(fact.valid_from)}")
    if found:
        click.echo("To take back one that is wrong: engram fact retract ID")


@command.command("neighbours")
@click.argument("name")
@click.option("--relation", metavar="TEXT", help="Only what is joined by this.")
@click.option("--depth", type=click.IntRange(1, 5), default=1, show_default=True, help="How many steps away.")
@reader_option
@click.pass_obj
def neighbours(state: State, name: str, relation: str | None, depth: int, agent: str | None) -> None:
    """Show what a concept is joined to, and by what."""
    from engram.memories.facts.predicates import canonical

    wanted = None if relation is None else canonical(relation)[0]
    with state.brain() as brain:
        edges = [
            edge
            for reader in state.readers(brain, agent)
            for edge in reader.semantic.subgraph(name, depth)
            if wanted in {None, edge.predicate}
        ]
    if state.json:
        print_json([edge.model_dump(mode="json") for edge in edges])
    elif not edges:
        click.echo("Nothing is joined to it.")
    else:
        rows = [[inline(edge.subject), inline(edge.predicate), inline(edge.object)] for edge in edges]
        print_table(["FROM", "RELATION", "TO"], rows)


@command.command("retract")
@click.argument("id")
@reader_option
@click.pass_obj
def retract(state: State, id: str, agent: str | None) -> None:
    """Forget a fact that was wrong; what it had ended holds again."""
    with state.brain() as brain:
        owner = next((each for each in state.readers(brain, agent) if each.get(id) is not None), None)
        if owner is None:
            raise NotFound(f"there is no fact {id!a}; `engram fact list` shows what there is")
        again = owner.semantic.retract(id)
    if state.json:
        print_json({"retracted": id, "holds_again": [fact.model_dump(mode="json") for fact in again]})
        return
    click.echo(f"Retracted: {inline(id)}")
    for fact in again:
        click.echo(f"Holds again: {inline(fact.text)} ({fact.id})")


def _told(name: str, fact: Fact) -> dict[str, Any]:
    return {"agent": name, **fact.model_dump(mode="json")}
