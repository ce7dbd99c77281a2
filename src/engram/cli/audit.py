"""`engram audit`: what was done to the database, and the proof that nobody has changed the record of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, parse_time
from engram.cli.render import print_json, print_result, print_table, to_json
from engram.errors import InvalidInput

if TYPE_CHECKING:
    from engram.audit import PublicKey
    from engram.model import AuditEntry, AuditVerification

FILE = click.Path(path_type=Path, dir_okay=False)
KEY = "audit.key"

key_option = click.option(
    "--key",
    type=FILE,
    help=f"The file with the key to sign with; made if it is not there. Default: {KEY} beside the user's data.",
)
public_option = click.option(
    "--public",
    multiple=True,
    type=FILE,
    help=f"A file with a key that checkpoints may be signed with; may be repeated. Default: the user's {KEY}.",
)


@click.group("audit", cls=CommandGroup)
def command() -> None:
    """Show and verify the record of what was done.

    Every write, deletion and administrative act is an entry: who, what, when, by which grant, how many; no content.
    """


@command.command("log")
@click.option("--agent", metavar="NAME", help="Only what was done to the memory of this agent.")
@click.option("--grant", metavar="ID", help="Only what was done by this grant.")
@click.option("--since", type=parse_time, help="Only from then on: a date, or how long ago (7d).")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="So many, the newest.")
@click.pass_obj
def log(cli: Invocation, agent: str | None, grant: str | None, since: datetime | None, limit: int) -> None:
    """Show the newest entries, the oldest of them first."""
    with cli.brain() as brain:
        found = brain.audit.find(limit=limit, agent=agent, grant=grant, since=since, newest=True)
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("No entries.")
    else:
        print_table(["NUMBER", "TIME", "BY", "ACTION", "AGENT", "COUNT", "ABOUT"], [_row(entry) for entry in found])


@command.command("verify")
@click.option("--anchor", "anchors", multiple=True, type=FILE, help="A file of anchors to compare with; repeatable.")
@public_option
@click.pass_context
def verify(ctx: click.Context, anchors: tuple[Path, ...], public: tuple[Path, ...]) -> None:
    """Look at every entry; exit with 1 and name each that was changed, moved, put in or removed.

    That the end was cut off, or all of it written anew, is found only by a signed checkpoint or an anchor.
    """
    from engram import audit

    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        trail = brain.audit
        known = [anchor for path in anchors for anchor in audit.read_anchors(path)]
        found = trail.verify(known, _keys(public, checkpoints=bool(trail.checkpoints() or known)))
    if cli.json:
        print_json(found.model_dump(mode="json"))
    else:
        _print_verification(cli, found)
    ctx.exit(0 if found.ok else 1)


@command.command("export")
@click.option("--out", type=FILE, help="The file to write to; else it is printed.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.pass_obj
def export(cli: Invocation, out: Path | None, force: bool) -> None:
    """Write all entries as lines of JSON, in order."""
    if out is not None and out.exists() and not force:
        raise InvalidInput(f"{out} exists; name another file, or overwrite it with --force")
    with cli.brain() as brain:
        lines = brain.audit.export()
        if out is None:
            for line in lines:
                click.echo(line)
            return
        try:
            with out.open("w", encoding="utf-8") as file:
                count = sum(1 for line in lines if file.write(line + "\n"))
        except OSError as error:
            raise InvalidInput(f"{out} cannot be written: {error.strerror}; name another file") from error
    print_result(cli, f"Wrote {_entries(count)} to {out}", path=str(out), entries=count)


@command.command("checkpoint")
@key_option
@click.pass_obj
def checkpoint(cli: Invocation, key: Path | None) -> None:
    """Sign the newest entry, which fixes all entries up to it, and keep that in the database."""
    from engram import audit

    with cli.brain() as brain:
        made = brain.audit.checkpoint(audit.signer(key or _default()))
    said = f"Signed entry {made.seq} with key {made.key_id}"
    print_result(cli, said, **made.model_dump(mode="json"))


@command.command("anchor")
@click.option("--to", "target", required=True, type=FILE, help="The file to append a line to.")
@click.option("--unsigned", is_flag=True, help="Do not sign it: the file is all the proof there is.")
@key_option
@click.pass_obj
def anchor(cli: Invocation, target: Path, unsigned: bool, key: Path | None) -> None:
    """Append the hash of the newest entry to a file outside of the database.

    Keep it where nobody who can change the database can change it: another machine, a repository, a printed page.
    """
    from engram import audit

    if unsigned and key is not None:
        raise InvalidInput("an anchor is either signed with --key or --unsigned, not both")
    with cli.brain() as brain:
        signer = None if unsigned else audit.signer(key or _default())
        made = brain.audit.head(signer)
        audit.add_anchor(target, made)
    print_result(cli, f"Anchored entry {made.seq} in {target}", path=str(target), **made.model_dump(mode="json"))


@command.command("prune")
@click.option("--through", type=click.IntRange(1), required=True, help="The number of the entry, with a checkpoint.")
@public_option
@click.pass_obj
def prune(cli: Invocation, through: int, public: tuple[Path, ...]) -> None:
    """Remove the entries up to a signed checkpoint. The trail is verified first, and what is left can still be."""
    with cli.brain() as brain:
        gone = brain.audit.prune(through, _keys(public, checkpoints=True))
    print_result(cli, f"Removed {_entries(gone)}", entries=gone, through=through)


def _default() -> Path:
    from engram.config import default_db

    return default_db().with_name(KEY)


def _keys(public: tuple[Path, ...], *, checkpoints: bool) -> list[PublicKey]:
    """The keys that are named, else the user's own, if there is one and it is needed."""
    from engram.audit import public_key

    own = [_default()] if checkpoints and _default().exists() else []
    return [public_key(path) for path in public or own]


def _row(entry: AuditEntry) -> list[str]:
    by = " for ".join(name for name in (entry.actor, entry.principal) if name) or "-"
    about = [entry.target, f"grant {entry.grant}" if entry.grant else "", _told(entry.detail)]
    return [
        str(entry.seq),
        format_time(entry.at),
        one_line(by),
        one_line(entry.action),
        one_line(entry.agent) or "-",
        f"{entry.count:,}",
        one_line(" ".join(part for part in about if part)),
    ]


def _told(detail: dict[str, Any]) -> str:
    from engram.model.audit import canonical_json

    return canonical_json(detail) if detail else ""


def _print_verification(cli: Invocation, found: AuditVerification) -> None:
    for problem in found.problems:
        click.echo(f"entry {problem.seq} {one_line(problem.what)}")
    if found.ok:
        click.echo(f"No problems in {_entries(found.entries)}, {found.first} to {found.last}")
        if found.fixed < found.last:
            cli.notice(
                f"entries {found.fixed + 1} to {found.last} could be cut off or written anew unseen; "
                "`engram audit checkpoint` and `engram audit anchor` prevent that"
            )


def _entries(count: int) -> str:
    return plural(count, "entry")
