"""`engram db`: look after the database."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from engram.cli.options import Group
from engram.cli.render import print_done, print_facts, print_json, progress
from engram.cli.state import State
from engram.cli.text import inline, many, masked, size
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


@click.group("db", cls=Group)
def command() -> None:
    """Describe, check, back up and restore the database."""


@command.command("info")
@click.pass_obj
def info(state: State) -> None:
    """Show where the database is, how large, which schema, and how many rows it has."""
    with state.brain() as brain:
        facts = dict(brain.upkeep.database.info())
    if state.json:
        print_json(facts)
    else:
        print_facts(facts | {"bytes": size(float(facts.get("bytes") or 0))})


@command.command("check")
@click.pass_context
def check(ctx: click.Context) -> None:
    """Look for damage in the file, the rows and the derived indexes; exit with 1 if there is any."""
    state = ctx.ensure_object(State)
    with state.brain() as brain:
        problems = brain.upkeep.database.check()
    if state.json:
        print_json({"ok": not problems, "problems": [problem._asdict() for problem in problems]})
    elif not problems:
        click.echo(f"No problems in {masked(state.settings.db)}")
    else:
        for problem in problems:
            click.echo(f"{problem.where}: {inline(problem.what)}")
        state.notice("`engram upkeep rebuild` mends the indexes; `engram db restore` brings back damaged memories")
    ctx.exit(1 if problems else 0)


@command.command("backup")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite the target if it exists.")
@click.pass_obj
def backup(state: State, target: Path, force: bool) -> None:
    """Write a consistent copy to the file TARGET, while others go on reading and writing."""
    state.require_database()
    if target.exists() and not force:
        raise Conflict(f"{target} exists; name another file, or overwrite it with --force")
    with state.brain() as brain, progress(state, "copying pages") as tell:
        brain.upkeep.database.backup(target, tell)
    print_done(state, f"Backed up to {target} ({size(target.stat().st_size)})", path=str(target))


@command.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.pass_obj
def copy(state: State, source: str, target: str) -> None:
    """Copy everything from the database SRC to the new database DST and verify it.

    It can be stopped and goes on where it was when it is started again. Nobody should write to SRC meanwhile.
    """
    from engram import wiring
    from engram.upkeep import copying

    with (
        state.user(),
        wiring.opened(state.settings, source) as giver,
        wiring.opened(state.settings, target) as taker,
        progress(state, "copying rows") as tell,
    ):
        copied = copying.copy(giver, taker, masked(source), tell)
    if state.json:
        print_json(dict(copied))
    else:
        click.echo(f"Copied {masked(source)} to {masked(target)}, and verified it:")
        print_facts(copied)


@command.command("restore")
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a database that has memories; it is saved beside itself first.")
@click.pass_obj
def restore(state: State, source: Path, force: bool) -> None:
    """Make the database what the file BACKUP is.

    The backup is tried and checked first; if anything is wrong with it, the database stays as it is.
    """
    from engram import wiring
    from engram.config import default_db

    target = state.file
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
    with progress(state, "checking the backup") as tell:
        _rehearse(source, target, lambda to: wiring.restore(source, to, tell))
    saved = _save(target, force)
    with state.user(), progress(state, "restoring") as tell:
        wiring.restore(source, target, tell)
    count = _count(target)
    print_done(
        state,
        f"Restored {many(count, 'memory')} to {target}" + (f"\nWhat was there is saved in {saved}" if saved else ""),
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
            with State(db=str(trial), quiet=True).brain() as brain:
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
        with State(db=str(target), quiet=True).brain() as brain:
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

    with State(db=str(target), quiet=True).brain() as brain:
        return int(brain.upkeep.database.info().get("memories") or 0)
