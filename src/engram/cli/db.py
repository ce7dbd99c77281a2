"""`engram db`: describe, check, copy, back up and restore the database."""

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
    """Describe, check, copy, back up and restore the database."""


@command.command("info")
@click.pass_obj
def info(cli: Invocation) -> None:
    """Show the location, size, schema version and row counts of the database."""
    with cli.brain() as brain:
        facts = dict(brain.upkeep.database.info())
    if cli.json:
        print_json(facts)
    else:
        print_fields(facts | {"bytes": format_size(float(facts.get("bytes") or 0))})


@command.command("check")
@click.pass_context
def check(ctx: click.Context) -> None:
    """Check the file, the rows and the derived indexes for damage; exit with 1 if there is any."""
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
        cli.notice("`engram upkeep rebuild` repairs the indexes; `engram db restore` brings back damaged memories")
    ctx.exit(1 if problems else 0)


@command.command("backup")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite the target if it exists.")
@click.pass_obj
def backup(cli: Invocation, target: Path, force: bool) -> None:
    """Write a consistent copy to the file TARGET; other programs can read and write meanwhile."""
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

    If it is interrupted, run it again: it continues where it stopped. Do not write to SRC meanwhile.
    """
    from engram import wiring
    from engram.upkeep import copying

    with (
        cli.user(),
        wiring.opened(cli.settings, source) as origin,
        wiring.opened(cli.settings, target) as copy_store,
        progress(cli, "copying rows") as on_progress,
    ):
        copied = copying.copy(origin, copy_store, mask_password(source), on_progress)
    if cli.json:
        print_json(dict(copied))
    else:
        click.echo(f"Copied {mask_password(source)} to {mask_password(target)}, and verified it:")
        print_fields(copied)


@command.command("restore")
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--force", is_flag=True, help="Replace a database that has memories; a copy of it is saved beside it first."
)
@click.pass_obj
def restore(cli: Invocation, source: Path, force: bool) -> None:
    """Replace the database by the backup in the file BACKUP.

    The backup is restored to a temporary file and checked first; if it is damaged, the database is not changed.
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
        _try_restore(source, target, lambda to: wiring.restore(source, to, on_progress))
    saved = _save_existing(target, force)
    with cli.user(), progress(cli, "restoring") as on_progress:
        wiring.restore(source, target, on_progress)
    count = _count(target)
    print_result(
        cli,
        f"Restored {plural(count, 'memory')} to {target}"
        + (f"\nThe previous database is saved in {saved}" if saved else ""),
        path=str(target),
        memories=count,
        saved=str(saved) if saved else None,
    )


def _try_restore(source: Path, target: Path, restore: Callable[[Path], None]) -> None:
    """Restore to a temporary file beside the target, open it and check it. Raises if the backup is damaged."""
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


def _save_existing(target: Path, force: bool) -> Path | None:
    """Save an existing database beside itself and return the copy. Raises `Conflict` without `force`."""
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
    except EngramError as error:  # it cannot be opened; that may be the reason for restoring it
        if not force:
            raise Conflict(f"{target} exists and cannot be used ({error}); replace it with --force") from error
        for suffix in ("", "-wal"):
            if (part := target.with_name(target.name + suffix)).exists():
                shutil.copy2(part, saved.with_name(saved.name + suffix))
    if not force:
        raise Conflict(f"{target} has memories; replace it with --force, which saves a copy beside it first")
    return saved


def _count(target: Path) -> int:

    with Invocation(db=str(target), quiet=True).brain() as brain:
        return int(brain.upkeep.database.info().get("memories") or 0)
