"""`engram upkeep`: work that can wait."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, parse_fraction, reader_option
from engram.cli.render import preview, print_fields, print_json, progress, to_json
from engram.errors import InvalidInput, NotFound
from engram.ports.completed import can

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram.model.retention import RetentionReport
    from engram.model.upkeep import ForgettingReport
    from engram.recall.learned_weights import Outcome


_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def span(value: str) -> timedelta:
    """How long something took, such as 90d, 12w or 24h."""
    try:
        if found := re.fullmatch(r"(\d{1,9})([hdw])", value.strip(), re.ASCII):
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        pass
    raise click.BadParameter(f"{value!r} is no time such as 90d, 12w or 24h.")


@click.group("upkeep", cls=CommandGroup)
def command() -> None:
    """Fill in vectors, learn how to rank, consolidate, let go of what faded, and rebuild what is derived."""


@command.command("reembed")
@click.option("--embedder", metavar="NAME", help="Switch to this one, named as in the setting `embedder`.")
@click.option("--drop-old", is_flag=True, help="When all is done, drop the vectors of other embedders.")
@click.pass_obj
def reembed(cli: Invocation, embedder: str | None, drop_old: bool) -> None:
    """Give every memory a vector of the embedder in use.

    It can be stopped at any time and goes on where it was when it is started again. With the setting `auto` it
    switches to the best model that is installed.
    """
    cli.require_database()
    with cli.brain(embedder=embedder or _best(cli)) as brain:
        try:
            with progress(cli, "embedding") as on_progress:
                added = brain.upkeep.reembed(on_progress, drop_old=drop_old)
        except KeyboardInterrupt:
            left = plural(brain.upkeep.missing_vectors(), "memory")
            cli.notice(f"stopped: {left} still without a vector; run it again to go on")
            raise
        name = brain.embedder.identity
    if cli.json:
        print_json({"embedder": name, "added": added, "left": 0})
    else:
        click.echo(f"Embedded {plural(added, 'memory')} with {name}.")


@command.command("sync")
@click.option("--anew", is_flag=True, help="Empty it first and hand over everything, whatever it has.")
@click.pass_obj
def sync(cli: Invocation, anew: bool) -> None:
    """Bring the vector database (the setting `vectors`) in step with the mirrored vectors."""
    cli.require_database()
    with cli.brain() as brain, progress(cli, "handing over") as on_progress:
        number = brain.upkeep.sync(on_progress, anew=anew)
    if cli.json:
        print_json({"vectors": number})
    else:
        click.echo(f"Handed over {plural(number, 'vector')}.")


@command.command("tune")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.pass_obj
def tune(cli: Invocation, dry_run: bool) -> None:
    """Learn from what agents said had helped them how to rank what they recall.

    What is learned is used only if it is better on the newest recalls, and given up when it no longer is.
    """
    with cli.brain() as brain:
        outcomes = brain.upkeep.tune(dry_run=dry_run)
    if cli.json:
        print_json([{"agent": agent, **asdict(outcome)} for agent, outcome in outcomes.items()])
    else:
        lines = [f"{one_line(agent)}: {_verdict(outcome, dry_run)}" for agent, outcome in outcomes.items()]
        click.echo("\n".join(lines) or "Nobody has said yet what helped.")


@command.command("consolidate")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--undo", metavar="ID", help="Take back what was made under this id, for good.")
@reader_option
@click.pass_obj
def consolidate(cli: Invocation, dry_run: bool, undo: str | None, agent: str | None) -> None:
    """Merge what says the same, make facts of what was observed again and again, and sum up topics.

    What is made names its sources and is tagged `consolidated`. Statements that were merged are no longer valid, but
    nothing is deleted.
    """
    if undo is not None and dry_run:
        raise click.UsageError("--undo cannot be tried; leave --dry-run out.")
    with cli.brain() as brain:
        names = [reader.name for reader in cli.readers(brain, agent)]
        if undo is not None:
            owner = next((name for name in names if brain.agent(name).get(undo) is not None), names[0] if names else "")
            if not owner:
                raise NotFound(f"nothing was consolidated as {undo}")
            made = [brain.upkeep.undo(owner, undo)]
        else:
            with progress(cli, "consolidating") as on_progress:
                made = brain.upkeep.consolidate(names, on_progress, dry_run=dry_run)
    if cli.json:
        print_json(to_json(made))
    elif undo is not None:
        click.echo(f"Taken back {undo}: {plural(len(made[0].sources), 'source')} as before.")
    else:
        for each in made:
            where = f" → {each.id}" if each.id else ""
            click.echo(f"{each.how} ({one_line(each.agent)}, {each.reason}){where}: {preview(each.text)}")
        click.echo(f"{'Would consolidate' if dry_run else 'Consolidated'}: {plural(len(made), 'change')}.")


@command.command("forget")
@click.option("--dry-run", is_flag=True, help="Only say what would go, and why.")
@click.option(
    "--below", type=parse_fraction, metavar="0..1", default="0.05", show_default=True, help="Only what is weaker."
)
@click.option(
    "--older-than",
    type=span,
    metavar="TIME",
    default="90d",
    show_default=True,
    help="Only what was neither stored nor used for so long.",
)
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to keep what goes, as JSON lines, compressed. Default: a new file beside the database.",
)
@click.option(
    "--restore",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="ARCHIVE",
    help="Remember again what this archive holds.",
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
    """Let go of memories that faded: hardly important, and not used for long.

    They are written to an archive first. What is pinned (by the tag `pinned`, or an importance of 1) or held, what
    other memories or decisions stand on, and what is learned from stays. The policies of `engram retention` run, too.
    """
    from engram.memories.forgetting_curve import ForgettingLimits

    if restore is not None and (dry_run or archive is not None):
        raise click.UsageError("--restore goes alone; leave --dry-run and --archive out.")
    limits, report = ForgettingLimits(below, older_than), None
    with cli.brain() as brain:
        if restore is not None:
            back = brain.upkeep.restore(restore)
        else:
            names = [reader.name for reader in cli.readers(brain, agent)]
            target = None if dry_run else archive or archive_beside(cli, brain.sources.now())
            if target is not None and not target.parent.is_dir():
                raise InvalidInput(f"there is no folder {target.parent} for the archive; make it first")
            found = brain.upkeep.fading(names, limits) if target is None else brain.upkeep.forget(names, target, limits)
            report = _retain(brain, names, target)
    if restore is not None:
        _print_restored(cli, back)
    elif cli.json:
        policies = {} if report is None else {"retention": report.model_dump(mode="json")}
        print_json(found.model_dump(mode="json") | policies)
    else:
        _print_forgetting(found, dry_run)
        if report is not None:
            from engram.cli.retention import print_report

            print_report(report)


@command.command("rebuild")
@click.pass_obj
def rebuild(cli: Invocation) -> None:
    """Make every derived index again from the memories themselves."""
    with cli.brain() as brain, progress(cli, "rebuilding") as on_progress:
        rebuilt = brain.upkeep.rebuild(on_progress)
    if cli.json:
        print_json(dict(rebuilt))
    else:
        click.echo("Rebuilt:")
        print_fields(rebuilt)


def _retain(brain: Engram, names: list[str], target: Path | None) -> RetentionReport | None:
    """Run the policies of these agents after what faded has gone; `None` if there are none."""
    from engram.ports import KeepsEvents

    if not can(brain.store, KeepsEvents) or not (retention := brain.retention).policies():
        return None
    archive = None if target is None else target.with_name(f"policies-{target.name}")
    return retention.run(archive, agents=names, dry_run=target is None)


def archive_beside(cli: Invocation, now: datetime) -> Path:
    """A new file beside the database. Raises `InvalidInput` if the database is in no file."""
    if cli.file is None:
        raise InvalidInput("this database is in no file; say with --archive where to keep what goes")
    return cli.file.with_name(f"{cli.file.stem}-forgotten-{now:%Y%m%dT%H%M%S%f}Z.jsonl.gz")


def _print_restored(cli: Invocation, back: int) -> None:
    if cli.json:
        print_json({"restored": back})
    else:
        click.echo(f"Restored {plural(back, 'memory')}.")


def _print_forgetting(found: ForgettingReport, dry_run: bool) -> None:
    for each in found.gone:
        click.echo(f"{each.id} ({one_line(each.agent)}, {each.kind}): {each.reason}: {preview(each.text)}")
    click.echo(f"{'Would forget' if dry_run else 'Forgot'} {plural(len(found.gone), 'memory')}.")
    if found.archive is not None:
        click.echo(f"  Archived in {one_line(found.archive)}")
    for reason, count in found.kept.items():
        click.echo(f"  Kept {plural(count, 'memory')}: {reason}")


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
    return f"{said} ({plural(outcome.events, 'credit')}{quality}; {outcome.reason})"


def _best(cli: Invocation) -> str | None:
    """What `auto` means here: a store that began without a model moves to one as soon as there is one."""
    from engram import wiring

    settings = cli.settings
    return "local" if settings.embedder == "auto" and wiring.models(settings).best_installed() else None
