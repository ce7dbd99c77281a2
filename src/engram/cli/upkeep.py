"""`engram upkeep`: maintenance of vectors, ranking, memories and indexes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, parse_duration, parse_fraction, reader_option
from engram.cli.render import preview, print_fields, print_json, print_result, progress, to_json
from engram.cli.retention import archive_path, print_kept, print_report
from engram.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram.model.retention import RetentionReport
    from engram.model.upkeep import ForgettingReport
    from engram.recall.learned_weights import Outcome


@click.group("upkeep", cls=CommandGroup)
def command() -> None:
    """Add missing vectors, tune ranking, consolidate, delete faded memories, and rebuild indexes."""


@command.command("reembed")
@click.option("--embedder", metavar="NAME", help="Switch to this embedder, named as in the setting `embedder`.")
@click.option("--drop-old", is_flag=True, help="Then delete the vectors of other embedders.")
@click.pass_obj
def reembed(cli: Invocation, embedder: str | None, drop_old: bool) -> None:
    """Compute a vector of the current embedder for every memory that lacks one.

    If it is interrupted, run it again: it continues where it stopped. With the setting `auto` it switches to the best
    installed model.
    """
    cli.require_database()
    with cli.brain(embedder=embedder or _best_embedder(cli)) as brain:
        try:
            with progress(cli, "embedding") as on_progress:
                added = brain.upkeep.reembed(on_progress, drop_old=drop_old)
        except KeyboardInterrupt:
            left = plural(brain.upkeep.missing_vectors(), "memory")
            cli.notice(f"stopped: {left} still without a vector; run it again to continue")
            raise
        name = brain.embedder.identity
    if cli.json:
        print_json({"embedder": name, "added": added, "left": 0})
    else:
        click.echo(f"Embedded {plural(added, 'memory')} with {name}.")


@command.command("sync")
@click.option("--anew", is_flag=True, help="Empty it first and copy all vectors again.")
@click.pass_obj
def sync(cli: Invocation, anew: bool) -> None:
    """Copy missing vectors from the database to the vector database (setting `vectors`)."""
    cli.require_database()
    with cli.brain() as brain, progress(cli, "copying vectors") as on_progress:
        number = brain.upkeep.sync(on_progress, anew=anew)
    if cli.json:
        print_json({"vectors": number})
    else:
        click.echo(f"Copied {plural(number, 'vector')}.")


@command.command("tune")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.pass_obj
def tune(cli: Invocation, dry_run: bool) -> None:
    """Tune the ranking of recalls from reports of which memories helped.

    Tuned weights are used only if they are better on the newest recalls, and are dropped when they no longer are.
    """
    with cli.brain() as brain:
        outcomes = brain.upkeep.tune(dry_run=dry_run)
    if cli.json:
        print_json([{"agent": agent, **asdict(outcome)} for agent, outcome in outcomes.items()])
    else:
        lines = [f"{one_line(agent)}: {_verdict(outcome, dry_run)}" for agent, outcome in outcomes.items()]
        click.echo("\n".join(lines) or "No feedback on recalls was reported yet.")


@command.command("consolidate")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option("--undo", metavar="ID", help="Undo the consolidation that made the memory with this id, for good.")
@reader_option
@click.pass_obj
def consolidate(cli: Invocation, dry_run: bool, undo: str | None, agent: str | None) -> None:
    """Merge duplicate statements, make facts from repeated observations, and summarise topics.

    New memories name their sources and are tagged `consolidated`. Merged statements are no longer valid, but nothing
    is deleted.
    """
    if undo is not None and dry_run:
        raise click.UsageError("--undo does not support --dry-run.")
    with cli.brain() as brain:
        names = [reader.name for reader in cli.readers(brain, agent)]
        if undo is not None:
            owner = next((name for name in names if brain.agent(name).get(undo) is not None), names[0] if names else "")
            if not owner:
                raise NotFound(f"nothing was consolidated as {undo}")
            changes = [brain.upkeep.undo(owner, undo)]
        else:
            with progress(cli, "consolidating") as on_progress:
                changes = brain.upkeep.consolidate(names, on_progress, dry_run=dry_run)
    if cli.json:
        print_json(to_json(changes))
    elif undo is not None:
        click.echo(f"Undone {undo}: {plural(len(changes[0].sources), 'source')} restored.")
    else:
        for each in changes:
            where = f" → {each.id}" if each.id else ""
            click.echo(f"{each.how} ({one_line(each.agent)}, {each.reason}){where}: {preview(each.text)}")
        click.echo(f"{'Would consolidate' if dry_run else 'Consolidated'}: {plural(len(changes), 'change')}.")


@command.command("forget")
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted, and why.")
@click.option(
    "--below",
    type=parse_fraction,
    metavar="0..1",
    default="0.05",
    show_default=True,
    help="Only memories below this strength.",
)
@click.option(
    "--older-than",
    type=parse_duration,
    metavar="TIME",
    default="90d",
    show_default=True,
    help="Only memories that were neither stored nor used for this long.",
)
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive file: compressed JSON lines. Default: a new file beside the database.",
)
@click.option(
    "--restore",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="ARCHIVE",
    help="Store the memories of this archive again.",
)
@reader_option
@click.pass_obj
def forget(
    cli: Invocation,
    dry_run: bool,
    below: float,
    older_than: timedelta,
    archive: Path | None,
    restore: Path | None,
    agent: str | None,
) -> None:
    """Delete faded memories: of little importance, and not used for long.

    They are written to an archive first. Memories stay if they are pinned (by the tag `pinned`, or an importance of
    1), under a legal hold, sources of other memories or decisions, or learned from. The policies of
    `engram retention` run, too.
    """
    from engram.memories.forgetting_curve import ForgettingLimits

    if restore is not None and (dry_run or archive is not None):
        raise click.UsageError("--restore cannot be combined with --dry-run and --archive.")
    limits, report = ForgettingLimits(below, older_than), None
    with cli.brain() as brain:
        if restore is not None:
            count = brain.upkeep.restore(restore)
        else:
            names = [reader.name for reader in cli.readers(brain, agent)]
            target = None if dry_run else archive or archive_path(cli, brain.sources.now())
            if target is not None and not target.parent.is_dir():
                raise InvalidInput(f"the folder {target.parent} for the archive does not exist; create it first")
            found = brain.upkeep.fading(names, limits) if target is None else brain.upkeep.forget(names, target, limits)
            report = _run_policies(brain, names, target)
    if restore is not None:
        print_result(cli, f"Restored {plural(count, 'memory')}.", restored=count)
    elif cli.json:
        policies = {} if report is None else {"retention": report.model_dump(mode="json")}
        print_json(found.model_dump(mode="json") | policies)
    else:
        _print_forgetting(found, dry_run)
        if report is not None:
            print_report(report)


@command.command("rebuild")
@click.pass_obj
def rebuild(cli: Invocation) -> None:
    """Rebuild all derived indexes from the memories."""
    with cli.brain() as brain, progress(cli, "rebuilding") as on_progress:
        rebuilt = brain.upkeep.rebuild(on_progress)
    if cli.json:
        print_json(dict(rebuilt))
    else:
        click.echo("Rebuilt:")
        print_fields(rebuilt)


def _run_policies(brain: Engram, names: list[str], target: Path | None) -> RetentionReport | None:
    """Run the retention policies for some agents; `None` if there are no policies."""
    from engram.ports import KeepsEvents
    from engram.ports.completed import can

    if not can(brain.store, KeepsEvents) or not (retention := brain.retention).policies():
        return None
    archive = None if target is None else target.with_name(f"policies-{target.name}")
    return retention.run(archive, agents=names, dry_run=target is None)


def _print_forgetting(found: ForgettingReport, dry_run: bool) -> None:
    for each in found.gone:
        click.echo(f"{each.id} ({one_line(each.agent)}, {each.kind}): {each.reason}: {preview(each.text)}")
    click.echo(f"{'Would forget' if dry_run else 'Forgot'} {plural(len(found.gone), 'memory')}.")
    if found.archive is not None:
        click.echo(f"  Archived in {one_line(found.archive)}")
    print_kept(found.kept)


def _verdict(outcome: Outcome, dry_run: bool) -> str:
    """Describe the result of tuning one agent's ranking, on one line."""
    weights = ", ".join(f"{name} ×{value:g}" for name, value in outcome.multipliers.items())
    decision = {
        "defaults": "the default weights stay",
        "kept": f"kept: {weights}",
        "adopted": f"{'would be ' if dry_run else ''}adopted: {weights}",
        "reverted": f"{'would go ' if dry_run else ''}back to the default weights",
    }[outcome.decision]
    quality = "" if outcome.after is None else f", MRR {outcome.before:.3f} → {outcome.after:.3f}"
    return f"{decision} ({plural(outcome.events, 'credit')}{quality}; {outcome.reason})"


def _best_embedder(cli: Invocation) -> str | None:
    """Return `local` for the setting `auto` if a model is installed; a store may have begun without one."""
    from engram import wiring

    settings = cli.settings
    return "local" if settings.embedder == "auto" and wiring.models(settings).best_installed() else None
