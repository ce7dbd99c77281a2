"""`engram upkeep`: work that can wait."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from engram.cli.options import Group
from engram.cli.render import print_facts, print_json, progress
from engram.cli.state import State
from engram.cli.text import inline, many

if TYPE_CHECKING:
    from engram.learn.ranking import Outcome


@click.group("upkeep", cls=Group)
def command() -> None:
    """Fill in vectors, learn how to rank, and rebuild what is derived."""


@command.command("reembed")
@click.option("--embedder", metavar="NAME", help="Switch to this one, named as in the setting `embedder`.")
@click.option("--drop-old", is_flag=True, help="When all is done, drop the vectors of other embedders.")
@click.pass_obj
def reembed(state: State, embedder: str | None, drop_old: bool) -> None:
    """Give every memory a vector of the embedder in use.

    It can be stopped at any time and goes on where it was when it is started again. With the setting `auto` it
    switches to the best model that is installed.
    """
    from engram import upkeep

    state.require_database()
    with state.brain(embedder=embedder or _best(state)) as brain:
        try:
            with progress(state, "embedding") as tell:
                added = upkeep.reembed(brain, tell, drop_old=drop_old)
        except KeyboardInterrupt:
            left = many(upkeep.missing_vectors(brain), "memory")
            state.notice(f"stopped: {left} still without a vector; run it again to go on")
            raise
        name = brain.embedder.identity
    if state.json:
        print_json({"embedder": name, "added": added, "left": 0})
    else:
        click.echo(f"Embedded {many(added, 'memory')} with {name}.")


@command.command("sync")
@click.option("--anew", is_flag=True, help="Empty it first and hand over everything, whatever it has.")
@click.pass_obj
def sync(state: State, anew: bool) -> None:
    """Bring the vector database (the setting `vectors`) in step with the mirrored vectors."""
    from engram import upkeep

    state.require_database()
    with state.brain() as brain, progress(state, "handing over") as tell:
        number = upkeep.sync(brain, tell, anew=anew)
    if state.json:
        print_json({"vectors": number})
    else:
        click.echo(f"Handed over {many(number, 'vector')}.")


@command.command("tune")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.pass_obj
def tune(state: State, dry_run: bool) -> None:
    """Learn from what agents said had helped them how to rank what they recall.

    What is learned is used only if it is better on the newest recalls, and given up when it no longer is.
    """
    from engram import upkeep

    with state.brain() as brain:
        outcomes = upkeep.tune(brain, dry_run=dry_run)
    if state.json:
        print_json([{"agent": agent, **asdict(outcome)} for agent, outcome in outcomes.items()])
    else:
        lines = [f"{inline(agent)}: {_verdict(outcome, dry_run)}" for agent, outcome in outcomes.items()]
        click.echo("\n".join(lines) or "Nobody has said yet what helped.")


@command.command("rebuild")
@click.pass_obj
def rebuild(state: State) -> None:
    """Make every derived index again from the memories themselves."""
    from engram import upkeep

    with state.brain() as brain, progress(state, "rebuilding") as tell:
        rebuilt = upkeep.rebuild(brain, tell)
    if state.json:
        print_json(dict(rebuilt))
    else:
        click.echo("Rebuilt:")
        print_facts(rebuilt)


def _verdict(outcome: Outcome, dry_run: bool) -> str:
    """What was decided about one agent's ranking, on one line."""
    counts = ", ".join(f"{name} ×{value:g}" for name, value in outcome.multipliers.items())
    said = {
        "defaults": "the defaults stay",
        "kept": f"kept: {counts}",
        "adopted": f"{'would be ' if dry_run else ''}adopted: {counts}",
        "reverted": f"{'would go ' if dry_run else ''}back to the defaults",
    }[outcome.decision]
    quality = "" if outcome.after is None else f", MRR {outcome.before:.3f} → {outcome.after:.3f}"
    return f"{said} ({many(outcome.events, 'credit')}{quality}; {outcome.reason})"


def _best(state: State) -> str | None:
    """What `auto` means here: a store that began without a model moves to one as soon as there is one."""
    from engram import wiring

    settings = state.settings
    return "local" if settings.embedder == "auto" and wiring.models(settings).best() else None
