"""`engram fact`: query, list and retract facts, and list contradictions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import format_time, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, limit_option, parse_time, reader_option
from engram.cli.render import print_json, print_list, with_agent
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.model.fact import Fact

as_of_option = click.option("--as-of", type=parse_time, help="As of this date or time ago (7d).")


@click.group("fact", cls=CommandGroup)
def command() -> None:
    """Query facts: a subject, a predicate and an object, valid for a time.

    A newer fact ends an older one, which can still be queried with --as-of. Two facts that claim to be valid at the
    same time but exclude each other are a contradiction.
    """


@command.command("list")
@click.argument("subject", required=False)
@click.option("--predicate", metavar="TEXT", help="Only facts with this predicate, such as 'lives in'.")
@click.option("--history", is_flag=True, help="Also facts that have ended; needs a subject.")
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
    """List the valid facts about a subject, or all, newest first."""
    if history and (subject is None or as_of is not None):
        raise click.UsageError("--history needs a subject, and excludes --as-of.")
    found: list[tuple[str, Fact]] = []
    with cli.brain() as brain:
        for reader in cli.readers(brain, agent):
            semantic = reader.semantic
            if history and subject is not None:
                facts = semantic.history(subject, predicate)
            else:
                facts = semantic.facts(subject, predicate, as_of=as_of, denials=True)
            found += [(reader.name, fact) for fact in facts]
    found = sorted(found, key=lambda each: each[1].order, reverse=True)[:limit]

    def row(pair: tuple[str, Fact]) -> list[str]:
        name, fact = pair
        valid = [format_time(fact.valid_from), format_time(fact.valid_until) or "-"]
        return [fact.id, *valid, one_line(name), one_line(fact.text)]

    print_list(cli, found, ["ID", "SINCE", "UNTIL", "AGENT", "FACT"], row, "No facts are known.", with_agent)


@command.command("ask")
@click.argument("subject")
@click.argument("predicate")
@as_of_option
@reader_option
@click.pass_obj
def ask(cli: Invocation, subject: str, predicate: str, as_of: datetime | None, agent: str | None) -> None:
    """Print the newest valid object, such as `engram fact ask Bob "lives in"`; exit with 3 if none is known."""
    with cli.brain() as brain:
        answers = [
            (reader.name, reader.semantic.ask(subject, predicate, as_of=as_of)) for reader in cli.readers(brain, agent)
        ]
    found = [(name, fact) for name, fact in answers if fact is not None]
    if not found:
        raise NotFound(f"no fact is known about {subject!a} {predicate!a}; `engram fact list` shows what is")
    name, fact = max(found, key=lambda each: each[1].order)
    if cli.json:
        print_json(with_agent((name, fact)))
    else:
        click.echo(f"{one_line(fact.object)} (since {format_time(fact.valid_from)}, {one_line(name)}, {fact.id})")


@command.command("contradictions")
@click.argument("subject", required=False)
@as_of_option
@reader_option
@click.pass_obj
def contradictions(cli: Invocation, subject: str | None, as_of: datetime | None, agent: str | None) -> None:
    """List pairs of facts that exclude each other, newest first."""
    with cli.brain() as brain:
        found = [
            (reader.name, pair)
            for reader in cli.readers(brain, agent)
            for pair in reader.semantic.contradictions(subject, as_of=as_of)
        ]
    if cli.json:
        print_json([with_agent(each) for each in found])
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
        click.echo("To delete a wrong one: engram fact retract ID")


@command.command("neighbours")
@click.argument("name")
@click.option("--relation", metavar="TEXT", help="Only edges with this predicate.")
@click.option("--depth", type=click.IntRange(1, 5), default=1, show_default=True, help="The maximum number of steps.")
@reader_option
@click.pass_obj
def neighbours(cli: Invocation, name: str, relation: str | None, depth: int, agent: str | None) -> None:
    """List the facts that connect a concept with others, as edges of a graph."""
    from engram.memories.facts.predicates import canonical

    wanted = None if relation is None else canonical(relation)[0]
    with cli.brain() as brain:
        edges = [
            edge
            for reader in cli.readers(brain, agent)
            for edge in reader.semantic.subgraph(name, depth)
            if wanted in {None, edge.predicate}
        ]
    print_list(
        cli,
        edges,
        ["FROM", "RELATION", "TO"],
        lambda edge: [one_line(edge.subject), one_line(edge.predicate), one_line(edge.object)],
        "No fact connects it with another concept.",
    )


@command.command("retract")
@click.argument("id")
@reader_option
@click.pass_obj
def retract(cli: Invocation, id: str, agent: str | None) -> None:
    """Delete a wrong fact; facts that it had ended are valid again."""
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
        click.echo(f"Valid again: {one_line(fact.text)} ({fact.id})")
