"""`engram workspace`: take, compare, restore, verify and delete snapshots of folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import format_size, format_time, one_line, plural
from engram.cli.invocation import Invocation, only_owner
from engram.cli.options import CommandGroup, F, agent_option, owner_option, reader_option, yes_option
from engram.cli.render import print_json, print_list, print_table, to_json
from engram.errors import InvalidInput

if TYPE_CHECKING:
    from engram.agents.workspaces.snapshots import Workspaces
    from engram.engine import Engram
    from engram.model.workspace import Change, PruneReport, Skipped, Snapshot

CONFLICT = 5
ID_LENGTH = 12
"""Characters of a snapshot id that are printed."""
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "mode": "m", "renamed": ">"}


def objects_option(command: F) -> F:
    """Add `--objects`."""
    return click.option(
        "--objects",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="The folder that stores file contents. Default: the setting `objects`, or beside the database file.",
    )(command)


@click.group("workspace", cls=CommandGroup)
def command() -> None:
    """Take snapshots of folders, and restore them.

    File contents are stored once each, so a snapshot takes little space if little has changed.
    """


@command.command("create")
@click.argument("name")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Exclude this, such as '*.pyc'; may be repeated.")
@click.option("--keep-secrets", is_flag=True, help="Also store text files that contain a secret.")
@agent_option
@objects_option
@click.pass_obj
def create(
    cli: Invocation,
    name: str,
    folder: Path,
    ignore: tuple[str, ...],
    keep_secrets: bool,
    agent: str | None,
    objects: Path | None,
) -> None:
    """Track a folder under a name."""
    with cli.brain(create=True) as brain:
        own = _workspaces(cli, brain, cli.writer(brain, agent).name, objects)
        made = own.create(name, folder, ignore=ignore, secrets="keep" if keep_secrets else "withhold")
    if cli.json:
        print_json(made.model_dump(mode="json"))
    else:
        click.echo(f"Tracking {one_line(made.folder)} as {made.name}")


@command.command("snapshot")
@click.argument("name")
@click.option("--label", default="", metavar="TEXT", help="A label for the snapshot.")
@owner_option
@objects_option
@click.pass_obj
def snapshot(cli: Invocation, name: str, label: str, agent: str | None, objects: Path | None) -> None:
    """Take a snapshot of all files of a workspace."""
    with cli.brain() as brain:
        taken = _owner(cli, brain, name, agent, objects).snapshot(name, label=label)
    if cli.json:
        print_json(taken.model_dump(mode="json"))
        return
    title = "Snapshot" if taken.fresh else "Nothing has changed since snapshot"
    click.echo(f"{title} {taken.id[:ID_LENGTH]}: {plural(taken.files, 'file')}, {format_size(taken.size)}")
    click.echo(f"  Read {format_size(taken.read)}, stored {format_size(taken.stored)}")
    _print_skipped("Left out", taken.skipped)


@command.command("diff")
@click.argument("name")
@click.argument("before", default="latest")
@click.argument("after", required=False)
@owner_option
@objects_option
@click.pass_obj
def diff(cli: Invocation, name: str, before: str, after: str | None, agent: str | None, objects: Path | None) -> None:
    """Show the changes from a snapshot to another one, or to the folder as it is now.

    A snapshot is given by the beginning of its id, or `latest`.
    """
    with cli.brain() as brain:
        found = _owner(cli, brain, name, agent, objects).diff(name, before, after)
    if cli.json:
        print_json(found.model_dump(mode="json"))
        return
    for change in found.changes:
        click.echo(_format_change(change))
    if not found.changes:
        click.echo("Nothing has changed.")
    _print_skipped("Left out", found.skipped)


@command.command("restore")
@click.argument("name")
@click.argument("snapshot", default="latest")
@click.argument("paths", nargs=-1)
@click.option("--into", type=click.Path(path_type=Path), metavar="FOLDER", help="Restore to another folder.")
@click.option("--force", is_flag=True, help="Also replace files with changes that are in no snapshot.")
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
    """Restore files from a snapshot: all, or those at or below the given paths.

    No file is deleted. Files with changes that are in no snapshot are kept, and the exit code is then 5. If a file
    could not be written, it is 1.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        own = _owner(cli, brain, name, agent, objects)
        done = own.restore(name, snapshot, paths=paths, into=into, force=force)
    if cli.json:
        print_json(done.model_dump(mode="json"))
    else:
        click.echo(
            f"Restored {plural(len(done.written), 'file')} of {done.snapshot[:ID_LENGTH]} to {one_line(done.folder)}"
        )
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
def list_(cli: Invocation, name: str | None, agent: str | None, objects: Path | None) -> None:
    """List the workspaces, or the snapshots of one."""
    with cli.brain() as brain:
        if name is not None:
            _print_snapshots(cli, _owner(cli, brain, name, agent, objects), name)
            return
        owners = [(one.name, _workspaces(cli, brain, one.name, objects)) for one in cli.readers(brain, agent)]
        found = [(owner, one, len(own.snapshots(one.name))) for owner, own in owners for one in own.list()]
    if cli.json:
        print_json([{"agent": who, **one.model_dump(mode="json"), "snapshots": n} for who, one, n in found])
    elif not found:
        click.echo("No workspaces yet.")
    else:
        rows = [[one.name, f"{count:,}", one_line(owner), one_line(one.folder)] for owner, one, count in found]
        print_table(["NAME", "SNAPSHOTS", "AGENT", "FOLDER"], rows)


@command.command("verify")
@click.argument("name", required=False)
@click.option("--repair", is_flag=True, help="Move damaged contents away, so that the next snapshot stores them again.")
@reader_option
@objects_option
@click.pass_context
def verify(ctx: click.Context, name: str | None, repair: bool, agent: str | None, objects: Path | None) -> None:
    """Verify the hashes of all contents of the snapshots.

    It exits with 1 if something is missing or damaged.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        found = [own.verify(name, repair=repair) for own in _owners(cli, brain, name, agent, objects)]
    problems = [problem for one in found for problem in one.problems]
    if cli.json:
        print_json({"objects": sum(one.objects for one in found), "problems": to_json(problems)})
    else:
        checked = (
            f"{plural(sum(one.objects for one in found), 'content')}, {format_size(sum(one.size for one in found))}"
        )
        click.echo(f"Read {checked}: {plural(len(problems), 'problem') if problems else 'all contents are intact'}")
        _print_skipped("Wrong", problems)
        if problems:
            repaired = "damaged contents were moved away; the next snapshot stores them again if the folder has them"
            click.echo(f"  Repaired: {repaired}" if repair else "  To move damaged contents away: --repair")
    if problems:
        ctx.exit(1)


@command.command("prune")
@click.argument("name", required=False)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Delete all but the newest N snapshots.")
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@reader_option
@objects_option
@click.pass_obj
def prune(
    cli: Invocation, name: str | None, keep: int | None, dry_run: bool, agent: str | None, objects: Path | None
) -> None:
    """Delete old snapshots of a workspace, or of all, and contents that no snapshot needs.

    Without --keep no snapshot is deleted. Contents that a snapshot of any agent needs stay.
    """
    from engram.agents.workspaces.snapshots import prune as pruned

    with cli.brain() as brain:
        done = pruned(_owners(cli, brain, name, agent, objects), name, keep=keep, dry_run=dry_run)
    _print_pruned(cli, done, "Would forget" if dry_run else "Forgot")


@command.command("forget")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@yes_option
@owner_option
@objects_option
@click.pass_obj
def forget(cli: Invocation, name: str, dry_run: bool, yes: bool, agent: str | None, objects: Path | None) -> None:
    """Delete a workspace, its snapshots, and contents that only they needed; the folder itself is not changed."""
    with cli.brain() as brain:
        own = _owner(cli, brain, name, agent, objects)
        if not (yes or dry_run) and sys.stdin.isatty():
            click.confirm(f"Forget {plural(len(own.snapshots(name)), 'snapshot')} of {name}?", abort=True, err=True)
        done = own.forget(name, dry_run=dry_run)
    _print_pruned(cli, done, f"{'Would forget' if dry_run else 'Forgot'} {name} with")


def _print_pruned(cli: Invocation, done: PruneReport, verb: str) -> None:
    if cli.json:
        print_json(done.model_dump(mode="json"))
        return
    for one in done.snapshots:
        click.echo(f"  {one.workspace} {one.id[:ID_LENGTH]} {format_time(one.at)} {one_line(one.label) or '-'}")
    contents = f"{plural(done.objects, 'content')}, {format_size(done.size)}"
    click.echo(f"{verb} {plural(len(done.snapshots), 'snapshot')} and {contents}")


def _workspaces(cli: Invocation, brain: Engram, agent: str, objects: Path | None) -> Workspaces:
    """Return the workspaces of an agent. Raises `InvalidInput` if the folder of file contents is not known."""
    from engram.agents.workspaces.objects import Objects
    from engram.agents.workspaces.snapshots import Workspaces
    from engram.ports import Scope

    folder = None if objects is None else Objects(objects.expanduser(), durable=cli.settings.durable)
    kept = folder or brain.objects
    if kept is None:
        raise InvalidInput(
            "this database is not a file: give the folder for file contents with --objects, or with the setting"
            " `objects` (ENGRAM_OBJECTS)"
        )
    return Workspaces(brain.store, Scope(agent), brain.redactor, brain.sources, kept)


def _owner(cli: Invocation, brain: Engram, name: str, agent: str | None, objects: Path | None) -> Workspaces:
    """Return the workspaces of the only agent that has this one. Raises `NotFound` and `InvalidInput`."""
    owners = [(one.name, _workspaces(cli, brain, one.name, objects)) for one in cli.readers(brain, agent)]
    found = [(agent, own) for agent, own in owners if any(one.name == name for one in own.list())]
    return only_owner(found, f"workspace {name}", "workspace list")


def _owners(
    cli: Invocation, brain: Engram, name: str | None, agent: str | None, objects: Path | None
) -> list[Workspaces]:
    """Return the workspaces of the agent that has this one; without a name, those of all selected agents."""
    if name is not None:
        return [_owner(cli, brain, name, agent, objects)]
    return [_workspaces(cli, brain, one.name, objects) for one in cli.readers(brain, agent)]


def _print_snapshots(cli: Invocation, own: Workspaces, name: str) -> None:
    def row(one: Snapshot) -> list[str]:
        size = [f"{one.files:,}", format_size(one.size)]
        return [one.id[:ID_LENGTH], format_time(one.at), *size, one_line(one.label) or "-"]

    print_list(cli, own.snapshots(name), ["SNAPSHOT", "TAKEN", "FILES", "SIZE", "LABEL"], row, "No snapshots yet.")


def _format_change(change: Change) -> str:
    path = one_line(change.path)
    if change.kind == "renamed" and change.before is not None:
        path = f"{one_line(change.before.path)} -> {path}"
    if change.kind == "mode" and change.before is not None and change.after is not None:
        path = f"{path} ({change.before.mode:o} -> {change.after.mode:o})"
    return f"{_SIGNS[change.kind]} {path}"


def _print_skipped(reason: str, skipped: list[Skipped] | tuple[Skipped, ...]) -> None:
    for one in skipped:
        click.echo(f"  {reason}: {one_line(one.path)}: {one_line(one.reason)}")
