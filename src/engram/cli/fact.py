"""`engram fact`: what agents know as facts, when it holds, and where it contradicts itself."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_time, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, limit_option, parse_time, reader_option
from engram.cli.render import print_json, print_table
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.model.fact import Fact

as_of_option = click.option("--as-of", type=parse_time, help="What held then: a date, or how long ago (7d).")


@click.group("fact", cls=CommandGroup)
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
    cli: Invocation,
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
    with cli.brain() as brain:
        for reader in cli.readers(brain, agent):
            known = reader.semantic
            if history and subject is not None:
                facts = known.history(subject, predicate)
            else:
                facts = known.facts(subject, predicate, as_of=as_of, denials=True)
            found += [(reader.name, fact) for fact in facts]
    found = sorted(found, key=lambda each: each[1].order, reverse=True)[:limit]
    if cli.json:
        print_json([_told(name, fact) for name, fact in found])
    elif not found:
        click.echo("No facts are known.")
    else:
        rows = [
            [
                fact.id,
                format_time(fact.valid_from),
                format_time(fact.valid_until) or "-",
                one_line(name),
                one_line(fact.text),
            ]
            for name, fact in found
        ]
        print_table(["ID", "SINCE", "UNTIL", "AGENT", "FACT"], rows)


@command.command("ask")
@click.argument("subject")
@click.argument("predicate")
@as_of_option
@reader_option
@click.pass_obj
def ask(cli: Invocation, subject: str, predicate: str, as_of: datetime | None, agent: str | None) -> None:
    """Say the newest value that holds, such as `engram fact ask Bob "lives in"`; exits with 3 if none is known."""
    with cli.brain() as brain:
        asked = cli.readers(brain, agent)
        known = [(reader.name, reader.semantic.ask(subject, predicate, as_of=as_of)) for reader in asked]
    found = [(name, fact) for name, fact in known if fact is not None]
    if not found:
        raise NotFound(f"nothing is known of {subject!a} {predicate!a}; `engram fact list` shows what is")
    name, fact = max(found, key=lambda each: each[1].order)
    if cli.json:
        print_json(_told(name, fact))
    else:
        click.echo(f"{one_line(fact.object)} (since {format_time(fact.valid_from)}, {one_line(name)}, {fact.id})")


@command.command("contradictions")
@click.argument("subject", required=False)
@as_of_option
@reader_option
@click.pass_obj
def contradictions(cli: Invocation, subject: str | None, as_of: datetime | None, agent: str | None) -> None:
    """Show facts that cannot both hold, the latest first."""
    with cli.brain() as brain:
        found = [
            (reader.name, pair)
            for reader in cli.readers(brain, agent)
            for pair in reader.semantic.contradictions(subject, as_of=as_of)
        ]
    if cli.json:
        print_json([{"agent": name, **pair.model_dump(mode="json")} for name, pair in found])
        return
    if not found:
        click.echo("No contradictions are known.")
    for name, pair in found:
        until = f" until {format_time(pair.until)}" if pair.until is not None else ""
        about = f"{one_line(pair.subject)} {one_line(pair.predicate)}"
        click.echo(f"{about}: {pair.reason} since {format_time(pair.since)}{until} ({one_line(name)})")
        for fact in pair.facts:
            click.echo(f"  {fact.id}  {one_line(fact.text)}, since {format_time(fact.valid_from)}")
    if found:
        click.echo("To take back one that is wrong: engram fact retract ID")


@command.command("neighbours")
@click.argument("name")
@click.option("--relation", metavar="TEXT", help="Only what is joined by this.")
@click.option("--depth", type=click.IntRange(1, 5), default=1, show_default=True, help="How many steps away.")
@reader_option
@click.pass_obj
def neighbours(cli: Invocation, name: str, relation: str | None, depth: int, agent: str | None) -> None:
    """Show what a concept is joined to, and by what."""
    from engram.memories.facts.predicates import canonical

    wanted = None if relation is None else canonical(relation)[0]
    with cli.brain() as brain:
        edges = [
            edge
            for reader in cli.readers(brain, agent)
            for edge in reader.semantic.subgraph(name, depth)
            if wanted in {None, edge.predicate}
        ]
    if cli.json:
        print_json([edge.model_dump(mode="json") for edge in edges])
    elif not edges:
        click.echo("Nothing is joined to it.")
    else:
        rows = [[one_line(edge.subject), one_line(edge.predicate), one_line(edge.object)] for edge in edges]
        print_table(["FROM", "RELATION", "TO"], rows)


@command.command("retract")
@click.argument("id")
@reader_option
@click.pass_obj
def retract(cli: Invocation, id: str, agent: str | None) -> None:
    """Forget a fact that was wrong; what it had ended holds again."""
    with cli.brain() as brain:
        owner = next((each for each in cli.readers(brain, agent) if each.get(id) is not None), None)
        if owner is None:
            raise NotFound(f"there is no fact {id!a}; `engram fact list` shows what there is")
        again = owner.semantic.retract(id)
    if cli.json:
        print_json({"retracted": id, "holds_again": [fact.model_dump(mode="json") for fact in again]})
        return
    click.echo(f"Retracted: {one_line(id)}")
    for fact in again:
        click.echo(f"Holds again: {one_line(fact.text)} ({fact.id})")


def _told(name: str, fact: Fact) -> dict[str, Any]:
    return {"agent": name, **fact.model_dump(mode="json")}
