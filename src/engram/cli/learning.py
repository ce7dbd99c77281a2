"""`engram learning`: what experience says about the next decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engram.cli.options import Group, reader_option
from engram.cli.render import print_json
from engram.cli.state import State
from engram.cli.text import inline, many

if TYPE_CHECKING:
    from engram.model import ActionRecord, Suggestion


@click.group("learning", cls=Group)
def command() -> None:
    """Ask what experience says.

    When no agent is named, by --agent or by the `agent` setting (ENGRAM_AGENT), the experience of all agents in the
    database counts.
    """


@command.command("suggest")
@click.option("--context", required=True, help="The situation, such as api-auth-timeout.")
@click.option("--action", "actions", multiple=True, metavar="ACTION", help="Consider only these; may be repeated.")
@click.option("--explore", is_flag=True, help="Now and then try what is less certain, to learn more.")
@click.option("-v", "--verbose", is_flag=True, help="Print the 95% interval of each rate.")
@reader_option
@click.pass_obj
def suggest(
    state: State, context: str, actions: tuple[str, ...], explore: bool, verbose: bool, agent: str | None
) -> None:
    """Suggest what to do in a context, from how it went before; too little evidence gives no recommendation."""
    from engram import engine

    with state.brain() as brain:
        suggestion = engine.suggest(state.readers(brain, agent), context, actions or None, explore=explore)
    if state.json:
        print_json(suggestion.model_dump(mode="json"))
    else:
        _print(suggestion, verbose)


def _print(suggestion: Suggestion, verbose: bool) -> None:
    known = any(record.attempts for record in suggestion.actions)
    click.echo("Based on past experience:" if known else "No experience with this context yet.")
    for record in suggestion.actions if known else ():
        click.echo(f"  • {inline(record.action)} ({_evidence(record, verbose)})")
    if suggestion.recommended is not None:
        click.echo(f"  Recommended: {inline(suggestion.recommended)}")
    elif known:
        click.echo(f"  No recommendation: {inline(suggestion.reason)}")


def _evidence(record: ActionRecord, verbose: bool) -> str:
    said = f"{record.success_rate:.0%} success rate, {many(record.attempts, 'attempt')}"
    low, high = record.interval
    return f"{said}, 95% interval {low * 100:.0f}–{high * 100:.0f}%" if verbose else said
