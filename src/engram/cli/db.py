"""`engram db`: look after the database."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from engram.cli.formatting import format_size, mask_password, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup
from engram.cli.render import print_fields, print_json, print_result, progress
from engram.clock import Sources
from engram.errors import (
    Conflict,
    EngramError,
    InvalidInput,
    NotAnEngramDatabase,
    NotFound,
    StoreCorrupt,
    StoreError,
    Unsupported,
)


@click.group("db", cls=CommandGroup)
def command() -> None:
    """Describe, check, back up and restore the database."""


@command.command("info")
@click.pass_obj
def info(cli: Invocation) -> None:
    """Show where the database is, how large, which schema, and how many rows it has."""
    with cli.brain() as brain:
        facts = dict(brain.upkeep.database.info())
    if cli.json:
        print_json(facts)
    else:
        print_fields(facts | {"bytes": format_size(float(facts.get("bytes") or 0))})


@command.command("check")
@click.pass_context
def check(ctx: click.Context) -> None:
    """Look for damage in the file, the rows and the derived indexes; exit with 1 if there is any."""
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        problems = brain.upkeep.database.check()
    if cli.json:
        print_json({"ok": not problems, "problems": [problem._asdict() for problem in problems]})
    elif not problems:
        click.echo(f"No problems in {mask_password(cli.settings.db)}")
    else:
        for problem in problems:
            click.echo(f"{problem.where}: {one_line(problem.what)}")
        cli.notice("`engram upkeep rebuild` mends the indexes; `engram db restore` brings back damaged memories")
    ctx.exit(1 if problems else 0)


@command.command("backup")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite the target if it exists.")
@click.pass_obj
def backup(cli: Invocation, target: Path, force: bool) -> None:
    """Write a consistent copy to the file TARGET, while others go on reading and writing."""
    cli.require_database()
    if target.exists() and not force:
        raise Conflict(f"{target} exists; name another file, or overwrite it with --force")
    with cli.brain() as brain, progress(cli, "copying pages") as on_progress:
        brain.upkeep.database.backup(target, on_progress)
    print_result(cli, f"Backed up to {target} ({format_size(target.stat().st_size)})", path=str(target))


@command.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.pass_obj
def copy(cli: Invocation, source: str, target: str) -> None:
    """Copy everything from the database SRC to the new database DST and verify it.

    It can be stopped and goes on where it was when it is started again. Nobody should write to SRC meanwhile.
    """
    from engram import wiring
    from engram.upkeep import copying

    with (
        cli.user(),
        wiring.opened(cli.settings, source) as giver,
        wiring.opened(cli.settings, target) as taker,
        progress(cli, "copying rows") as on_progress,
    ):
        copied = copying.copy(giver, taker, mask_password(source), on_progress)
    if cli.json:
        print_json(dict(copied))
    else:
        click.echo(f"Copied {mask_password(source)} to {mask_password(target)}, and verified it:")
        print_fields(copied)


@command.command("restore")
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a database that has memories; it is saved beside itself first.")
@click.pass_obj
def restore(cli: Invocation, source: Path, force: bool) -> None:
    """Make the database what the file BACKUP is.

    The backup is tried and checked first; if anything is wrong with it, the database stays as it is.
    """
    from engram import wiring
    from engram.config import default_db

    target = cli.file
    if target is None:
        raise Unsupported("only a database in a file can be restored; name one with --db")
    if not source.is_file():
        raise NotFound(f"there is no file {source}; give one that `engram db backup` wrote")
    if target.exists() and target.samefile(source):
        raise InvalidInput(f"{source} is the database itself; give a file that `engram db backup` wrote")
    if target == default_db():
        target.parent.mkdir(parents=True, exist_ok=True)
    elif not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist; create it first")
    with progress(cli, "checking the backup") as on_progress:
        _rehearse(source, target, lambda to: wiring.restore(source, to, on_progress))
    saved = _save(target, force)
    with cli.user(), progress(cli, "restoring") as on_progress:
        wiring.restore(source, target, on_progress)
    count = _count(target)
    print_result(
        cli,
        f"Restored {plural(count, 'memory')} to {target}" + (f"\nWhat was there is saved in {saved}" if saved else ""),
        path=str(target),
        memories=count,
        saved=str(saved) if saved else None,
    )


def _rehearse(source: Path, target: Path, restore: Callable[[Path], None]) -> None:
    """Restore to a place beside the target, open it and check it. Raises if anything is wrong with the backup."""
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=target.parent) as folder:
        trial = Path(folder) / "trial.db"
        try:
            restore(trial)
            with Invocation(db=str(trial), quiet=True).brain() as brain:
                problems = brain.upkeep.database.check()
        except StoreError as error:
            raise type(error)(str(error).replace(str(trial), str(source))) from error
    if problems:
        raise StoreCorrupt(f"{source} is damaged ({problems[0].where}: {problems[0].what}); use another backup")


def _save(target: Path, force: bool) -> Path | None:
    """Put what is at the target aside, if it is anything. Raises `Conflict` unless that was asked for."""
    if not target.exists() or not target.stat().st_size:
        return None

    stamp = Sources().now().strftime("%Y%m%dT%H%M%S%fZ")
    saved = target.with_name(f"{target.name}.before-restore-{stamp}")
    try:
        with Invocation(db=str(target), quiet=True).brain() as brain:
            if not brain.upkeep.database.info().get("memories"):
                return None
            if force:
                brain.upkeep.database.backup(saved)
    except NotAnEngramDatabase:
        raise
    except EngramError as error:  # it cannot be opened, which may be why it is to be restored
        if not force:
            raise Conflict(f"{target} exists and cannot be used ({error}); replace it with --force") from error
        for suffix in ("", "-wal"):
            if (part := target.with_name(target.name + suffix)).exists():
                shutil.copy2(part, saved.with_name(saved.name + suffix))
    if not force:
        raise Conflict(f"{target} has memories; replace it with --force, which saves it beside itself first")
    return saved


def _count(target: Path) -> int:

    with Invocation(db=str(target), quiet=True).brain() as brain:
        return int(brain.upkeep.database.info().get("memories") or 0)
