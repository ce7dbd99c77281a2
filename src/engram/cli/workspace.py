"""`engram workspace`: snapshots of folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.options import F, Group, agent_option, owner_option, reader_option
from engram.cli.render import dump, print_json, print_table
from engram.cli.state import State
from engram.cli.text import inline, many, moment, size
from engram.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from engram.agents.workspaces.snapshots import Workspaces
    from engram.engine import Engram
    from engram.model.workspace import Change, PruneReport, Skipped

CONFLICT = 5
SHORT = 12
"""How much of an id is shown."""
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "mode": "m", "renamed": ">"}


def objects_option(command: F) -> F:
    """`--objects`, for all commands."""
    return click.option(
        "--objects",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Where the contents of files are kept. Default: the setting `objects`, or beside the database file.",
    )(command)


@click.group("workspace", cls=Group)
def command() -> None:
    """Keep folders as they are, and bring them back.

    A snapshot keeps each content once, and costs almost nothing if little has changed.
    """


@command.command("create")
@click.argument("name")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Leave this out, such as '*.pyc'; may be repeated.")
@click.option("--keep-secrets", is_flag=True, help="Also keep text files that hold a secret.")
@agent_option
@objects_option
@click.pass_obj
def create(
    state: State,
    name: str,
    folder: Path,
    ignore: tuple[str, ...],
    keep_secrets: bool,
    agent: str | None,
    objects: Path | None,
) -> None:
    """Track a folder under a name."""
    with state.brain(create=True) as brain:
        own = _workspaces(state, brain, state.writer(brain, agent).name, objects)
        made = own.create(name, folder, ignore=ignore, secrets="keep" if keep_secrets else "withhold")
    if state.json:
        print_json(made.model_dump(mode="json"))
    else:
        click.echo(f"Tracking {inline(made.folder)} as {made.name}")


@command.command("snapshot")
@click.argument("name")
@click.option("--label", default="", metavar="TEXT", help="What it is called.")
@owner_option
@objects_option
@click.pass_obj
def snapshot(state: State, name: str, label: str, agent: str | None, objects: Path | None) -> None:
    """Keep all files of a workspace as they are now."""
    with state.brain() as brain:
        taken = _owner(state, brain, name, agent, objects).snapshot(name, label=label)
    if state.json:
        print_json(taken.model_dump(mode="json"))
        return
    said = "Snapshot" if taken.fresh else "Nothing has changed since snapshot"
    click.echo(f"{said} {taken.id[:SHORT]}: {many(taken.files, 'file')}, {size(taken.size)}")
    click.echo(f"  Read {size(taken.read)}, stored {size(taken.stored)}")
    _print_skipped("Left out", taken.skipped)


@command.command("diff")
@click.argument("name")
@click.argument("before", default="latest")
@click.argument("after", required=False)
@owner_option
@objects_option
@click.pass_obj
def diff(state: State, name: str, before: str, after: str | None, agent: str | None, objects: Path | None) -> None:
    """Show what changed from a snapshot to another one, or to the folder as it is now.

    A snapshot is named by the beginning of its id, or `latest`.
    """
    with state.brain() as brain:
        found = _owner(state, brain, name, agent, objects).diff(name, before, after)
    if state.json:
        print_json(found.model_dump(mode="json"))
        return
    for change in found.changes:
        click.echo(_line(change))
    if not found.changes:
        click.echo("Nothing has changed.")
    _print_skipped("Left out", found.skipped)


@command.command("restore")
@click.argument("name")
@click.argument("snapshot", default="latest")
@click.argument("paths", nargs=-1)
@click.option("--into", type=click.Path(path_type=Path), metavar="FOLDER", help="Restore to another folder.")
@click.option("--force", is_flag=True, help="Replace files with changes that no snapshot holds, too.")
@owner_option
@objects_option
@click.pass_context
def restore(
    ctx: click.Context,
    name: str,
    snapshot: str,
    paths: tuple[str, ...],
    into: Path | None,
    force: bool,
    agent: str | None,
    objects: Path | None,
) -> None:
    """Bring files back as they were in a snapshot: all, or those at or below the given paths.

    Nothing is removed. Files with changes that no snapshot holds are kept; then it exits with 5. If something could
    not be written, it exits with 1.
    """
    state = ctx.ensure_object(State)
    with state.brain() as brain:
        own = _owner(state, brain, name, agent, objects)
        done = own.restore(name, snapshot, paths=paths, into=into, force=force)
    if state.json:
        print_json(done.model_dump(mode="json"))
    else:
        click.echo(f"Restored {many(len(done.written), 'file')} of {done.snapshot[:SHORT]} to {inline(done.folder)}")
        click.echo(f"  Unchanged: {done.unchanged:,}")
        _print_skipped("Kept", done.kept)
        _print_skipped("Refused", done.refused)
    if done.refused or done.kept:
        ctx.exit(1 if done.refused else CONFLICT)


@command.command("list")
@click.argument("name", required=False)
@reader_option
@objects_option
@click.pass_obj
def list_(state: State, name: str | None, agent: str | None, objects: Path | None) -> None:
    """List the workspaces, or the snapshots of one."""
    with state.brain() as brain:
        if name is not None:
            _print_snapshots(state, _owner(state, brain, name, agent, objects), name)
            return
        owners = [(one.name, _workspaces(state, brain, one.name, objects)) for one in state.readers(brain, agent)]
        found = [(owner, one, len(own.snapshots(one.name))) for owner, own in owners for one in own.list()]
    if state.json:
        print_json([{"agent": who, **one.model_dump(mode="json"), "snapshots": n} for who, one, n in found])
    elif not found:
        click.echo("No workspaces yet.")
    else:
        rows = [[one.name, f"{count:,}", inline(owner), inline(one.folder)] for owner, one, count in found]
        print_table(["NAME", "SNAPSHOTS", "AGENT", "FOLDER"], rows)


@command.command("verify")
@click.argument("name", required=False)
@click.option("--repair", is_flag=True, help="Set aside what is damaged, so that the next snapshot stores it anew.")
@reader_option
@objects_option
@click.pass_context
def verify(ctx: click.Context, name: str | None, repair: bool, agent: str | None, objects: Path | None) -> None:
    """Read everything that the snapshots hold again, and compare it with its hashes.

    It exits with 1 if something is missing or damaged.
    """
    state = ctx.ensure_object(State)
    with state.brain() as brain:
        found = [own.verify(name, repair=repair) for own in _owners(state, brain, name, agent, objects)]
    problems = [problem for one in found for problem in one.problems]
    if state.json:
        print_json({"objects": sum(one.objects for one in found), "problems": dump(problems)})
    else:
        checked = f"{many(sum(one.objects for one in found), 'content')}, {size(sum(one.size for one in found))}"
        click.echo(f"Read {checked}: {many(len(problems), 'problem') if problems else 'all is well'}")
        _print_skipped("Wrong", problems)
        if problems:
            anew = "what is damaged was set aside; the next snapshot stores it anew, if the folder still has it"
            click.echo(f"  Repaired: {anew}" if repair else "  To set aside what is damaged: --repair")
    if problems:
        ctx.exit(1)


@command.command("prune")
@click.argument("name", required=False)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Forget all but the newest N snapshots.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@reader_option
@objects_option
@click.pass_obj
def prune(
    state: State, name: str | None, keep: int | None, dry_run: bool, agent: str | None, objects: Path | None
) -> None:
    """Forget old snapshots of a workspace, or of all, and delete what no snapshot needs.

    Without --keep no snapshot is forgotten. What a snapshot of any agent needs stays.
    """
    from engram.agents.workspaces.snapshots import prune as pruned

    with state.brain() as brain:
        done = pruned(_owners(state, brain, name, agent, objects), name, keep=keep, dry_run=dry_run)
    _print_pruned(state, done, "Would forget" if dry_run else "Forgot")


@command.command("forget")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway.")
@owner_option
@objects_option
@click.pass_obj
def forget(state: State, name: str, dry_run: bool, yes: bool, agent: str | None, objects: Path | None) -> None:
    """Forget a workspace, its snapshots, and what only they needed; the folder itself is left alone."""
    with state.brain() as brain:
        own = _owner(state, brain, name, agent, objects)
        if not (yes or dry_run) and sys.stdin.isatty():
            click.confirm(f"Forget {many(len(own.snapshots(name)), 'snapshot')} of {name}?", abort=True, err=True)
        done = own.forget(name, dry_run=dry_run)
    _print_pruned(state, done, f"{'Would forget' if dry_run else 'Forgot'} {name} with")


def _print_pruned(state: State, done: PruneReport, said: str) -> None:
    if state.json:
        print_json(done.model_dump(mode="json"))
        return
    for one in done.snapshots:
        click.echo(f"  {one.workspace} {one.id[:SHORT]} {moment(one.at)} {inline(one.label) or '-'}")
    click.echo(f"{said} {many(len(done.snapshots), 'snapshot')} and {many(done.objects, 'content')}, {size(done.size)}")


def _workspaces(state: State, brain: Engram, agent: str, objects: Path | None) -> Workspaces:
    """The workspaces of an agent. Raises `InvalidInput` if nobody says where the objects are."""
    from engram.agents.workspaces.objects import Objects
    from engram.agents.workspaces.snapshots import Workspaces
    from engram.ports import Scope

    folder = None if objects is None else Objects(objects.expanduser(), durable=state.settings.durable)
    kept = folder or brain.objects
    if kept is None:
        raise InvalidInput(
            "this database has no folder beside it; say where the files are kept with --objects, or with the setting"
            " `objects` (ENGRAM_OBJECTS)"
        )
    return Workspaces(brain.store, Scope(agent), brain.redactor, brain.sources, kept)


def _owner(state: State, brain: Engram, name: str, agent: str | None, objects: Path | None) -> Workspaces:
    """The workspaces of whoever has this one. Raises `NotFound`, or `InvalidInput` if several have it."""
    owners = [(one.name, _workspaces(state, brain, one.name, objects)) for one in state.readers(brain, agent)]
    having = [(who, own) for who, own in owners if any(one.name == name for one in own.list())]
    if not having:
        raise NotFound(f"there is no workspace {name}; `engram workspace list` shows what there is")
    if len(having) > 1:
        names = ", ".join(who for who, _ in having)
        raise InvalidInput(f"{names} have a workspace {name}; say whose is meant with --agent")
    return having[0][1]


def _owners(state: State, brain: Engram, name: str | None, agent: str | None, objects: Path | None) -> list[Workspaces]:
    """The workspaces of whoever has this one, or without a name of all who are looked at."""
    if name is not None:
        return [_owner(state, brain, name, agent, objects)]
    return [_workspaces(state, brain, one.name, objects) for one in state.readers(brain, agent)]


def _print_snapshots(state: State, own: Workspaces, name: str) -> None:
    found = own.snapshots(name)
    if state.json:
        print_json(dump(found))
    elif not found:
        click.echo("No snapshots yet.")
    else:
        rows = [
            [one.id[:SHORT], moment(one.at), f"{one.files:,}", size(one.size), inline(one.label) or "-"]
            for one in found
        ]
        print_table(["SNAPSHOT", "TAKEN", "FILES", "SIZE", "LABEL"], rows)


def _line(change: Change) -> str:
    path = inline(change.path)
    if change.kind == "renamed" and change.before is not None:
        path = f"{inline(change.before.path)} -> {path}"
    if change.kind == "mode" and change.before is not None and change.after is not None:
        path = f"{path} ({change.before.mode:o} -> {change.after.mode:o})"
    return f"{_SIGNS[change.kind]} {path}"


def _print_skipped(said: str, skipped: list[Skipped] | tuple[Skipped, ...]) -> None:
    for one in skipped:
        click.echo(f"  {said}: {inline(one.path)}: {inline(one.reason)}")
