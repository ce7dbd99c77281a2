"""`engram memory`: store, find, show, change, share and delete memories."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from engram.cli import grant, patterns, record
from engram.cli.formatting import escaped, format_age, format_time, one_line, plural
from engram.cli.invocation import Invocation, only_owner
from engram.cli.options import (
    CommandGroup,
    filter_options,
    limit_option,
    owner_option,
    parse_fraction,
    parse_time,
    reader_option,
    yes_option,
)
from engram.cli.render import is_terminal, preview, print_fields, print_json, print_model, print_table, to_json
from engram.clock import Sources

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.model import Hit, Memory

NOT_SCORE_PARTS = ("found_by", "similarity", "passage", "vectors", "expanded", "source", "source_trust")
"""Entries of `Hit.why` that are not parts of the score."""


@click.group("memory", cls=CommandGroup)
def command() -> None:
    """Store, find, show, change, share and delete memories.

    Commands that write act for the agent named by --agent, else by the `agent` setting (ENGRAM_AGENT), else for the
    agent `default`. Commands that read use the memories of all agents in the database if no agent is named by either,
    and print the agent of each.

    A KIND is one of decision, failure, success, collaboration, knowledge, observation, reflection, plan, result,
    message and procedure. Times are in UTC unless they have an offset, or a time ago: 30m, 24h, 7d, 2w.
    """


command.add_command(record.record)
command.add_command(record.add)
command.add_command(patterns.patterns)


@command.command("list")
@reader_option
@filter_options
@limit_option(50)
@click.option("--shared", is_flag=True, help="Include what is shared with the agent.")
@click.pass_obj
def list_(cli: Invocation, /, agent: str | None, limit: int, shared: bool, **where: Any) -> None:
    """List memories, newest first."""
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        # with several agents, a shared memory is listed once, with its owner
        include_shared = (shared or cli.selected(agent) is None) and len(readers) == 1
        found = [memory for reader in readers for memory in reader.list(limit=limit, shared=include_shared, **where)]
    found.sort(key=lambda memory: (memory.happened_at, memory.id), reverse=True)
    found = found[:limit]
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("No memories.")
    else:
        _print_table(found, with_owner=len(readers) > 1)


@command.command("search")
@click.argument("query")
@reader_option
@filter_options
@limit_option(10)
@click.option(
    "--min-score", type=parse_fraction, metavar="0..1", default=0.0, help="Only hits with at least this score."
)
@click.option("--group-by", type=click.Choice(["session"]), help="Only the best hit of each session.")
@click.option(
    "--budget-tokens", type=click.IntRange(min=1), metavar="N", help="Only as much text as fits into N tokens."
)
@click.option("--expand", is_flag=True, help="Also search for concepts that facts connect to those in QUERY.")
@click.option("--explain", is_flag=True, help="Print how each hit was found, and the parts of its score.")
@click.pass_obj
def search(
    cli: Invocation,
    /,
    query: str,
    agent: str | None,
    limit: int,
    explain: bool,
    budget_tokens: int | None,
    **wanted: Any,
) -> None:
    """Find the memories that answer QUERY, by words and by meaning, best first."""
    from engram.recall.pack import within_budget

    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        found = [
            hit
            for reader in readers
            for hit in reader.recall(query, limit, budget_tokens=budget_tokens, shared=len(readers) == 1, **wanted)
        ]
    found = _best(found)[:limit]
    if budget_tokens is not None:
        found = within_budget(found, budget_tokens)
    _print_hits(cli, found, explain, wanted | {"budget_tokens": budget_tokens})


@command.command("retrieve")
@click.option("--context", required=True, help="The situation, such as auth-failure.")
@reader_option
@limit_option(10)
@click.option(
    "--min-score", type=parse_fraction, metavar="0..1", default=0.0, help="Only hits with at least this score."
)
@click.option("--explain", is_flag=True, help="Print how each hit was found, and the parts of its score.")
@click.pass_obj
def retrieve(cli: Invocation, context: str, agent: str | None, limit: int, min_score: float, explain: bool) -> None:
    """Show past decisions in a context.

    The decisions in exactly this context come first, newest first, then memories of similar contexts.
    """
    from engram.model import Hit

    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        same = [memory for reader in readers for memory in reader.decisions(context)]
        alone = len(readers) == 1  # with several agents, a shared memory is found with its owner
        similar = [
            hit for reader in readers for hit in reader.recall(context, limit, min_score=min_score, shared=alone)
        ]
    same.sort(key=lambda memory: (memory.happened_at, memory.id), reverse=True)
    listed = {memory.id for memory in same}
    found = [Hit(id=memory.id, memory=memory, score=1.0, why={"found_by": "same context"}) for memory in same]
    found += [hit for hit in _best(similar) if hit.id not in listed]
    _print_hits(cli, found[:limit], explain, {"min_score": min_score})


@command.command("share")
@click.option("--from", "owner", required=True, metavar="AGENT", help="The agent that owns the knowledge.")
@click.option("--to", required=True, metavar="NAME", help="The receiver: an agent, `group:NAME`, or `everyone`.")
@grant.subject_options
@click.option("--purpose", default="", help="What it is for.")
@grant.terms_options
@click.option("--via", default="", metavar="GRANT", help="Reshare what the owner received under this grant.")
@click.pass_obj
def share_(cli: Invocation, /, owner: str, to: str, **terms: Any) -> None:
    """Share knowledge at once, as its owner."""
    grant.share(cli, owner, to, **terms)


@command.command("show")
@click.argument("id")
@owner_option
@click.pass_obj
def show(cli: Invocation, id: str, agent: str | None) -> None:
    """Show all fields of one memory."""
    with cli.brain() as brain:
        _, memory = _owned(cli, brain, id, agent)
    if cli.json:
        print_json(memory.model_dump(mode="json"))
    else:
        _print_memory(memory)


@command.command("annotate")
@click.argument("id")
@owner_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A new tag; replaces the old ones; may be repeated.")
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@click.option("--importance", type=parse_fraction, metavar="0..1", help="How important it is.")
@click.option("--confidence", type=parse_fraction, metavar="0..1", help="How certain it is.")
@click.option("--valid-until", type=parse_time, help="When it stops, or stopped, being valid.")
@click.option(
    "--expect-version", type=int, metavar="N", help="Change it only if it has this version, else exit with 5."
)
@click.pass_obj
def annotate(
    cli: Invocation,
    id: str,
    agent: str | None,
    tags: tuple[str, ...],
    no_tags: bool,
    importance: float | None,
    confidence: float | None,
    valid_until: datetime | None,
    expect_version: int | None,
) -> None:
    """Change the tags, importance, confidence or validity of a memory; its text never changes."""
    if tags and no_tags:
        raise click.UsageError("--tag and --no-tags contradict each other.")
    if not (tags or no_tags) and importance is None and confidence is None and valid_until is None:
        raise click.UsageError("Give --tag, --no-tags, --importance, --confidence or --valid-until.")
    with cli.brain() as brain:
        owner, _ = _owned(cli, brain, id, agent)
        changed = owner.annotate(
            id,
            tags=tags if tags or no_tags else None,
            importance=importance,
            confidence=confidence,
            valid_until=valid_until,
            expected_version=expect_version,
        )
    print_model(cli, changed, f"Changed {changed.id} (version {changed.version})")


@command.command("forget")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@owner_option
@yes_option
@click.pass_obj
def forget(cli: Invocation, ids: tuple[str, ...], agent: str | None, yes: bool) -> None:
    """Delete memories and everything that belongs to them, for good.

    If one of several does not exist, none is deleted.
    """
    with cli.brain() as brain:
        owned = [_owned(cli, brain, id, agent) for id in dict.fromkeys(ids)]
        if not yes and sys.stdin.isatty():
            for _, memory in owned:
                click.echo(f"{memory.id}  {preview(memory.text)}", err=True)
            click.confirm(f"Forget {plural(len(owned), 'memory')} for good?", abort=True, err=True)
        receipts = [owner.forget(memory.id) for owner, memory in owned]
    if cli.json:
        print_json(to_json(receipts))
        return
    for receipt in receipts:
        removed = ", ".join(f"{name} {number}" for name, number in receipt.removed.items() if number)
        click.echo(f"Forgot {receipt.id} ({removed})" if receipt.forgotten else f"{receipt.id} was deleted already")
    if any(receipt.lingers for receipt in receipts):
        click.echo("Another program is reading the database; its log keeps the text until that ends.", err=True)


def _owned(cli: Invocation, brain: Engram, id: str, agent: str | None) -> tuple[AgentHandle, Memory]:
    """Return the only agent that has a memory, and the memory. Raises `NotFound` and `InvalidInput`."""
    readers = cli.readers(brain, agent)
    alone = len(readers) == 1  # with several agents, a shared memory is found with its owner
    memories = [(reader, reader.get(id, shared=alone)) for reader in readers]
    found = [(reader.name, (reader, memory)) for reader, memory in memories if memory is not None]
    return only_owner(found, f"memory {id}", "memory list")


def _best(hits: list[Hit]) -> list[Hit]:
    """Sort hits best first; equal scores newest first."""
    return sorted(sorted(hits, key=lambda hit: hit.id, reverse=True), key=lambda hit: hit.score, reverse=True)


def _print_table(memories: list[Memory], with_owner: bool) -> None:
    now, on_terminal = Sources().now(), is_terminal()
    headings = ["ID", "WHEN", *(["AGENT"] if with_owner else []), "KIND", "TEXT"]
    rows = [
        [
            memory.id,
            format_age(memory.happened_at, now) if on_terminal else format_time(memory.happened_at),
            *([one_line(memory.agent)] if with_owner else []),
            memory.kind.value,
            preview(_ended(memory, now) + _text(memory)),
        ]
        for memory in memories
    ]
    print_table(headings, rows)


def _text(memory: Memory) -> str:
    """Return the text of a memory after its context."""
    return f"{memory.context}: {memory.text}" if memory.context else memory.text


def _ended(memory: Memory, now: datetime) -> str:
    """Return a mark for a memory that is no longer valid; recall finds it only with --as-of an earlier time."""
    until = memory.valid_until
    return f"(ended {format_time(until)}) " if until is not None and until <= now else ""


def _rate(memory: Memory) -> str:
    """Return the success rate in words; empty for a decision, whose text contains its outcome."""
    if memory.success_rate is None or memory.kind == "decision":
        return ""
    return f" ({memory.success_rate:.0%} success rate)"


def _print_hits(cli: Invocation, hits: list[Hit], explain: bool, wanted: Mapping[str, Any]) -> None:
    if cli.json:
        print_json(to_json(hits))
        return
    names = ", ".join(one_line(name) for name in dict.fromkeys(hit.memory.agent for hit in hits))
    click.echo(f"Found {plural(len(hits), 'memory')} from {names}:" if hits else "Found no memories.")
    if explain:
        click.echo(f"  only {one_line(', '.join(_limits(wanted)))}")
    for hit in hits:
        memory = hit.memory
        click.echo(f"  • {preview(_text(memory))}{_rate(memory)}")
        details = [
            memory.id,
            one_line(memory.agent),
            memory.kind.value,
            format_time(memory.happened_at),
            *map(one_line, memory.tags),
        ]
        click.echo(f"    {' · '.join([f'score {hit.score:.2f}', *details])}")
        for line in _explained(hit.why) if explain else ():
            click.echo(f"    {one_line(line)}")


def _limits(wanted: Mapping[str, Any]) -> Iterator[str]:
    """Describe the filters of a search."""
    for name in ("kinds", "tags"):
        yield from (f"{name[:-1]} {value}" for value in wanted.get(name, ()))
    for name in ("since", "until", "as_of"):
        if (at := wanted.get(name)) is not None:
            yield f"{name.replace('_', ' ')} {format_time(at)}"
    if wanted.get("as_of") is None:
        yield "valid now"
    for name in ("session", "group_by", "budget_tokens", "min_score"):
        if wanted.get(name):
            yield f"{name.replace('_', ' ')} {wanted[name]}"


def _explained(why: Mapping[str, float | str]) -> Iterator[str]:
    """Describe how a hit was found, and the parts of its score, largest first."""
    facts = [(name, why[name]) for name in NOT_SCORE_PARTS if name in why]
    yield ", ".join(
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:g}'}" for name, value in facts
    )
    parts = {name: float(value) for name, value in why.items() if name not in NOT_SCORE_PARTS}
    if parts:
        ranked = sorted(parts, key=lambda name: -abs(parts[name]))
        yield ", ".join(f"{name.replace('_', ' ')} {parts[name]:+.3f}" for name in ranked)


def _print_memory(memory: Memory) -> None:
    facts: dict[str, object] = {}
    for name, value in memory:
        if name in {"text", "content", "provenance", "metadata"}:
            continue
        facts[name] = _plain(value)
    for part in (memory.provenance, memory.content):
        facts |= {name: _plain(value) for name, value in part if name != "kind"}
    facts["metadata"] = _plain(dict(memory.metadata))
    print_fields(facts)
    click.echo()
    click.echo(escaped(memory.text))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, dict):
        from json import dumps

        return dumps(value, ensure_ascii=False) if value else ""
    return "" if value is None else str(value)
