"""`engram audit`: show, verify, sign, export and prune the audit trail."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, parse_time
from engram.cli.render import print_json, print_list, print_model, print_result
from engram.errors import InvalidInput

if TYPE_CHECKING:
    from engram.audit import PublicKey
    from engram.model import AuditEntry, AuditVerification

FILE = click.Path(path_type=Path, dir_okay=False)
KEY = "audit.key"

key_option = click.option(
    "--key",
    type=FILE,
    help=f"The file of the signing key; created if it does not exist. Default: {KEY} in the user's data folder.",
)
public_option = click.option(
    "--public",
    multiple=True,
    type=FILE,
    help=f"A file with a key that checkpoints may be signed with; may be repeated. Default: the user's {KEY}.",
)


@click.group("audit", cls=CommandGroup)
def command() -> None:
    """Show and verify the audit trail.

    Every write, deletion and administrative act is an entry: who, what, when, by which grant, how many; no content.
    """


@command.command("log")
@click.option("--agent", metavar="NAME", help="Only entries about this agent's memory.")
@click.option("--grant", metavar="ID", help="Only entries about uses of this grant.")
@click.option("--since", type=parse_time, help="Only entries since this date or time ago (7d).")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Show the newest N.")
@click.pass_obj
def log(cli: Invocation, agent: str | None, grant: str | None, since: datetime | None, limit: int) -> None:
    """Show the newest entries, in order."""
    with cli.brain() as brain:
        found = brain.audit.find(limit=limit, agent=agent, grant=grant, since=since, newest=True)
    print_list(cli, found, ["NUMBER", "TIME", "BY", "ACTION", "AGENT", "COUNT", "ABOUT"], _row, "No entries.")


@command.command("verify")
@click.option(
    "--anchor", "anchors", multiple=True, type=FILE, help="A file of anchors to compare with; may be repeated."
)
@public_option
@click.pass_context
def verify(ctx: click.Context, anchors: tuple[Path, ...], public: tuple[Path, ...]) -> None:
    """Verify every entry; exit with 1 and list those that were changed, moved, inserted or removed.

    If entries at the end were cut off, or the whole trail was rewritten, only a signed checkpoint or an anchor shows
    it.
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
@click.option("--out", type=FILE, help="The file to write to. Default: standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.pass_obj
def export(cli: Invocation, out: Path | None, force: bool) -> None:
    """Export all entries as JSON lines, in order."""
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
    print_result(cli, f"Wrote {plural(count, 'entry')} to {out}", path=str(out), entries=count)


@command.command("checkpoint")
@key_option
@click.pass_obj
def checkpoint(cli: Invocation, key: Path | None) -> None:
    """Sign the newest entry and store the signature in the database; it covers all entries up to there."""
    from engram import audit

    with cli.brain() as brain:
        signed = brain.audit.checkpoint(audit.signer(key or _default_key()))
    print_model(cli, signed, f"Signed entry {signed.seq} with key {signed.key_id}")


@command.command("anchor")
@click.option("--to", "target", required=True, type=FILE, help="The file to append a line to.")
@click.option("--unsigned", is_flag=True, help="Do not sign it: then the file itself is the only proof.")
@key_option
@click.pass_obj
def anchor(cli: Invocation, target: Path, unsigned: bool, key: Path | None) -> None:
    """Append the hash of the newest entry to a file outside of the database.

    Keep the file where nobody who can change the database can change it: another machine, a repository, a printout.
    """
    from engram import audit

    if unsigned and key is not None:
        raise InvalidInput("an anchor is either signed with --key or --unsigned, not both")
    with cli.brain() as brain:
        signer = None if unsigned else audit.signer(key or _default_key())
        made = brain.audit.head(signer)
        audit.add_anchor(target, made)
    print_result(cli, f"Anchored entry {made.seq} in {target}", path=str(target), **made.model_dump(mode="json"))


@command.command("prune")
@click.option("--through", type=click.IntRange(1), required=True, help="The number of an entry that has a checkpoint.")
@public_option
@click.pass_obj
def prune(cli: Invocation, through: int, public: tuple[Path, ...]) -> None:
    """Delete the entries up to a signed checkpoint. The trail is verified first; the rest can still be verified."""
    with cli.brain() as brain:
        count = brain.audit.prune(through, _keys(public, checkpoints=True))
    print_result(cli, f"Removed {plural(count, 'entry')}", entries=count, through=through)


def _default_key() -> Path:
    from engram.config import default_db

    return default_db().with_name(KEY)


def _keys(public: tuple[Path, ...], *, checkpoints: bool) -> list[PublicKey]:
    """Read the named public keys, else the user's own if it exists and there are checkpoints to verify."""
    from engram.audit import public_key

    own = [_default_key()] if checkpoints and _default_key().exists() else []
    return [public_key(path) for path in public or own]


def _row(entry: AuditEntry) -> list[str]:
    by = " for ".join(name for name in (entry.actor, entry.principal) if name) or "-"
    about = [entry.target, f"grant {entry.grant}" if entry.grant else "", _detail(entry.detail)]
    return [
        str(entry.seq),
        format_time(entry.at),
        one_line(by),
        one_line(entry.action),
        one_line(entry.agent) or "-",
        f"{entry.count:,}",
        one_line(" ".join(part for part in about if part)),
    ]


def _detail(detail: dict[str, Any]) -> str:
    from engram.model.audit import canonical_json

    return canonical_json(detail) if detail else ""


def _print_verification(cli: Invocation, found: AuditVerification) -> None:
    for problem in found.problems:
        click.echo(f"entry {problem.seq} {one_line(problem.what)}")
    if found.ok:
        click.echo(f"No problems in {plural(found.entries, 'entry')}, {found.first} to {found.last}")
        if found.fixed < found.last:
            cli.notice(
                f"entries {found.fixed + 1} to {found.last} are not covered by a signed checkpoint or an anchor yet; "
                "`engram audit checkpoint` and `engram audit anchor` cover them"
            )
