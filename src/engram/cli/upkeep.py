"""`engram upkeep`: work that can wait."""

from __future__ import annotations

import click

from engram.cli.options import Group
from engram.cli.render import print_facts, print_json, progress
from engram.cli.state import State
from engram.cli.text import many


@click.group("upkeep", cls=Group)
def command() -> None:
    """Fill in vectors, and rebuild what is derived."""


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
@click.option("--anew", is_flag=True, help="Empty it first and hand over everything: after it lost something.")
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


def _best(state: State) -> str | None:
    """What `auto` means here: a store that began without a model moves to one as soon as there is one."""
    from engram import wiring

    settings = state.settings
    return "local" if settings.embedder == "auto" and wiring.models(settings).best() else None
