"""`engram memory`: remember, find, look at, change and forget."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from engram.cli import grant, patterns, record
from engram.cli.formatting import escaped, format_age, format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import (
    CommandGroup,
    filter_options,
    limit_option,
    owner_option,
    parse_fraction,
    parse_time,
    reader_option,
)
from engram.cli.render import is_terminal, preview, print_fields, print_json, print_table, to_json
from engram.clock import Sources
from engram.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.model import Hit, Memory

FACTS = ("found_by", "similarity", "passage", "vectors", "expanded", "source", "source_trust")
"""What `why` tells besides the parts of a score."""


@click.group("memory", cls=CommandGroup)
def command() -> None:
    """Remember, find and forget.

    Commands that write act for the agent named by --agent, else by the `agent` setting (ENGRAM_AGENT), else for the
    agent `default`. Commands that read, when no agent is named either way, look at the memories of all agents in the
    database, and say whose each one is: whoever runs the command owns the file.

    A KIND is one of decision, failure, success, collaboration, knowledge, observation, reflection, plan, result,
    message and procedure. Times are UTC unless they say otherwise. A time may also be how long ago: 30m, 24h, 7d, 2w.
    """


command.add_command(record.record)
command.add_command(record.add)
command.add_command(patterns.patterns)


@command.command("list")
@reader_option
@filter_options
@limit_option(50)
@click.option("--shared", is_flag=True, help="Also what is shared with the agent.")
@click.pass_obj
def list_(cli: Invocation, /, agent: str | None, limit: int, shared: bool, **where: Any) -> None:
    """List memories, newest first."""
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        named = agent is not None or bool(cli.settings.agent)
        also = (shared or not named) and len(readers) == 1  # of everybody, what is shared is seen where it is
        found = [memory for reader in readers for memory in reader.list(limit=limit, shared=also, **where)]
    found.sort(key=lambda memory: (memory.happened_at, memory.id), reverse=True)
    found = found[:limit]
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("No memories.")
    else:
        _print_table(found, whose=len(readers) > 1)


@command.command("search")
@click.argument("query")
@reader_option
@filter_options
@limit_option(10)
@click.option("--min-score", type=parse_fraction, metavar="0..1", default=0.0, help="Only with at least this score.")
@click.option("--group-by", type=click.Choice(["session"]), help="Only the best of each session.")
@click.option(
    "--budget-tokens", type=click.IntRange(min=1), metavar="N", help="Only as much text as fits into so many tokens."
)
@click.option("--expand", is_flag=True, help="Ask also with the concepts that facts join to those it names.")
@click.option("--explain", is_flag=True, help="Print how each was found, and the parts of its score.")
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
    """Find the memories that answer QUERY, by words and by meaning."""
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
@click.option("--min-score", type=parse_fraction, metavar="0..1", default=0.0, help="Only with at least this score.")
@click.option("--explain", is_flag=True, help="Print how each was found, and the parts of its score.")
@click.pass_obj
def retrieve(cli: Invocation, context: str, agent: str | None, limit: int, min_score: float, explain: bool) -> None:
    """Show what was done in a context.

    The decisions taken in this very context come first, newest first, then what is remembered of similar ones.
    """
    from engram.model import Hit

    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        same = [memory for reader in readers for memory in reader.decisions(context)]
        alone = len(readers) == 1  # who looks at everybody sees what is shared where it is
        similar = [
            hit for reader in readers for hit in reader.recall(context, limit, min_score=min_score, shared=alone)
        ]
    same.sort(key=lambda memory: (memory.happened_at, memory.id), reverse=True)
    known = {memory.id for memory in same}
    found = [Hit(id=memory.id, memory=memory, score=1.0, why={"found_by": "same context"}) for memory in same]
    found += [hit for hit in _best(similar) if hit.id not in known]
    _print_hits(cli, found[:limit], explain, {"min_score": min_score})


@command.command("share")
@click.option("--from", "owner", required=True, metavar="AGENT", help="Whose knowledge.")
@click.option("--to", required=True, metavar="NAME", help="With whom: an agent, `group:NAME`, or `everyone`.")
@grant.subject_options
@click.option("--purpose", default="", help="What it is for.")
@grant.terms_options
@click.option("--via", default="", metavar="GRANT", help="Share on what was shared with you under this grant.")
@click.pass_obj
def share_(cli: Invocation, /, owner: str, to: str, **terms: Any) -> None:
    """Share knowledge at once, as its owner."""
    grant.share(cli, owner, to, **terms)


@command.command("show")
@click.argument("id")
@owner_option
@click.pass_obj
def show(cli: Invocation, id: str, agent: str | None) -> None:
    """Show everything about one memory."""
    with cli.brain() as brain:
        _, memory = _owned(cli, brain, id, agent)
    if cli.json:
        print_json(memory.model_dump(mode="json"))
    else:
        _print_memory(memory)


@command.command("annotate")
@click.argument("id")
@owner_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="The new tags, in place of the old; may be repeated.")
@click.option("--no-tags", is_flag=True, help="Take all tags away.")
@click.option("--importance", type=parse_fraction, metavar="0..1", help="How much it matters.")
@click.option("--confidence", type=parse_fraction, metavar="0..1", help="How sure it is.")
@click.option("--valid-until", type=parse_time, help="When it stops, or stopped, being true.")
@click.option("--expect-version", type=int, help="Change it only if it is still at this version, else exit with 5.")
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
    """Change what surrounds a memory; what it says never changes."""
    if tags and no_tags:
        raise click.UsageError("--tag and --no-tags contradict each other.")
    if not (tags or no_tags) and importance is None and confidence is None and valid_until is None:
        raise click.UsageError("Say what is to change: --tag, --no-tags, --importance, --confidence or --valid-until.")
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
    if cli.json:
        print_json(changed.model_dump(mode="json"))
    else:
        click.echo(f"Changed {changed.id} (version {changed.version})")


@command.command("forget")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@owner_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway.")
@click.pass_obj
def forget(cli: Invocation, ids: tuple[str, ...], agent: str | None, yes: bool) -> None:
    """Remove memories and everything that belongs to them, for good.

    If one of several is not there, none is forgotten.
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
        gone = ", ".join(f"{name} {number}" for name, number in receipt.removed.items() if number)
        click.echo(f"Forgot {receipt.id} ({gone})" if receipt.forgotten else f"{receipt.id} was gone already")
    if any(receipt.lingers for receipt in receipts):
        click.echo("Somebody reads the database: its log has it until then, and until a write or an upkeep.", err=True)


def _owned(cli: Invocation, brain: Engram, id: str, agent: str | None) -> tuple[AgentHandle, Memory]:
    """The one agent who has this memory, and the memory. Raises `NotFound`, or `InvalidInput` if several have it."""
    readers = cli.readers(brain, agent)
    alone = len(readers) == 1  # who looks at everybody sees what is shared where it is
    found = [(reader, memory) for reader in readers if (memory := reader.get(id, shared=alone)) is not None]
    if not found:
        raise NotFound(f"there is no memory {id}; `engram memory list` shows what there is")
    if len(found) > 1:
        names = ", ".join(reader.name for reader, _ in found)
        raise InvalidInput(f"{id} is a memory of {names}; say whose is meant with --agent")
    return found[0]


def _best(hits: list[Hit]) -> list[Hit]:
    """Best first; equal scores newest first."""
    return sorted(sorted(hits, key=lambda hit: hit.id, reverse=True), key=lambda hit: hit.score, reverse=True)


def _print_table(memories: list[Memory], whose: bool) -> None:
    now, glancing = Sources().now(), is_terminal()
    headings = ["ID", "WHEN", *(["AGENT"] if whose else []), "KIND", "TEXT"]
    rows = [
        [
            memory.id,
            format_age(memory.happened_at, now) if glancing else format_time(memory.happened_at),
            *([one_line(memory.agent)] if whose else []),
            memory.kind.value,
            preview(_ended(memory, now) + _said(memory)),
        ]
        for memory in memories
    ]
    print_table(headings, rows)


def _said(memory: Memory) -> str:
    """What a memory says, after the context it says it about."""
    return f"{memory.context}: {memory.text}" if memory.context else memory.text


def _ended(memory: Memory, now: datetime) -> str:
    """Since when a memory no longer holds, if it does not; recall finds it only as of an earlier time."""
    until = memory.valid_until
    return f"(ended {format_time(until)}) " if until is not None and until <= now else ""


def _rate(memory: Memory) -> str:
    """The success rate of what was learnt; a decision is one episode, and its text says how it went."""
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
        click.echo(f"  • {preview(_said(memory))}{_rate(memory)}")
        facts = [
            memory.id,
            one_line(memory.agent),
            memory.kind.value,
            format_time(memory.happened_at),
            *map(one_line, memory.tags),
        ]
        click.echo(f"    {' · '.join([f'score {hit.score:.2f}', *facts])}")
        for line in _explained(hit.why) if explain else ():
            click.echo(f"    {one_line(line)}")


def _limits(wanted: Mapping[str, Any]) -> Iterator[str]:
    """What a search was limited to, in words."""
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
    """How a hit was found, and the parts of its score, the largest first."""
    facts = [(name, why[name]) for name in FACTS if name in why]
    yield ", ".join(
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:g}'}" for name, value in facts
    )
    parts = {name: float(value) for name, value in why.items() if name not in FACTS}
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
