"""`engram crypt`: encrypt the database, and manage its keys."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import mask_password, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, yes_option
from engram.cli.render import print_fields, print_json, progress
from engram.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from engram.config import Settings
    from engram.ports import Encrypts

# Written out, because importing the stores would make --help slow.
MODES = ("fields", "file")


@click.group("crypt", cls=CommandGroup)
def command() -> None:
    """Encrypt the database, and manage its keys.

    In `fields` mode all columns with content are encrypted, with separate keys for each agent; in `file` mode SQLCipher
    encrypts the whole file. The master key is in a file, in the environment or in the system's keyring, never in the
    database: without it the memories cannot be read.
    """


@command.command("status")
@click.pass_obj
def status(cli: Invocation) -> None:
    """Show how the database is encrypted, and where its master key is."""
    with _encrypted(cli) as store:
        facts: dict[str, object] = {"database": mask_password(cli.settings.db), **store.encryption()}
    if facts["mode"] != "none":
        facts["key"] = "ENGRAM_KEY" if cli.settings.key else cli.settings.key_file
    if cli.json:
        print_json(facts)
    else:
        print_fields(facts)


@command.command("init")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="fields",
    show_default=True,
    help="Encrypt the columns with content, or the whole file.",
)
@click.option(
    "--key-file",
    "place",
    metavar="PLACE",
    help="The master key, created if it does not exist: a file, or keyring:NAME. Default: the setting `key_file`.",
)
@click.pass_obj
def init(cli: Invocation, mode: str, place: str | None) -> None:
    """Encrypt the database, and create a master key if there is none.

    An existing database is encrypted row by row and then rewritten, so that no plain text stays in its files. If it is
    interrupted, run it again: it continues. Close the database in all other programs first. Existing backups are not
    encrypted.
    """
    from engram import wiring
    from engram.clock import Sources
    from engram.config import default_db

    settings, created = _with_key(cli.settings, place)
    if cli.missing:
        if cli.missing == default_db():
            cli.missing.parent.mkdir(parents=True, exist_ok=True)
        wiring.open_store(replace(settings, encryption=mode), Sources()).close()
        rows = 0
    else:
        with cli.user(), progress(cli, "encrypting rows") as on_progress:
            rows = wiring.encrypt(settings, mode, on_progress)
    key = "ENGRAM_KEY" if settings.key else settings.key_file
    if cli.json:
        print_json({"database": mask_password(settings.db), "mode": mode, "key": key, "made": created, "rows": rows})
    else:
        click.echo(f"{mask_password(settings.db)} is encrypted ({mode})")
        click.echo(
            f"The {'new ' if created else ''}master key is in {one_line(key)}; keep a copy of it in a safe place"
        )
    if not cli.settings.key and cli.settings.key_file != key:
        cli.notice(f'Set key_file = "{key}" in engram.toml, or ENGRAM_KEY_FILE, so that the key is found')
    for left in _plain_copies(cli.file):
        cli.notice(f"{left} was written before, and is not encrypted; delete it when you no longer need it")


@command.command("rotate")
@click.option(
    "--to",
    "place",
    required=True,
    metavar="PLACE",
    help="Where to put the new master key: a new file, or keyring:NAME.",
)
@click.pass_obj
def rotate(cli: Invocation, place: str) -> None:
    """Change the master key in one step; in `fields` mode the data itself is not encrypted again.

    Existing backups need the old key.
    """
    from engram import wiring

    with _encrypted(cli) as store:
        mode = store.encryption()["mode"]
    if mode == "none":
        raise Conflict("the database is not encrypted; run `engram crypt init` to encrypt it")
    settings, created = _with_key(replace(cli.settings, key=""), place)
    new = wiring.master_key(settings)
    if new.identity == wiring.master_key(cli.settings).identity:
        raise Conflict(f"{place} is the master key that the database uses already; name a new place")
    if mode == "file":
        wiring.recode(cli.settings, settings)
        number = 1
    else:
        with _encrypted(cli) as store:
            number = store.rotate(new)
    if cli.json:
        print_json({"mode": mode, "key": place, "made": created, "master": new.identity, "keys": number})
    else:
        click.echo(f"The master key is now {one_line(place)}; it protects {plural(number, 'key')}")
    cli.notice(f'Set key_file = "{place}", and keep the old key as long as you keep backups made with it')


@command.command("rekey")
@click.option("--agent", metavar="NAME", help="Only this agent's keys. Default: all.")
@click.option(
    "--index", is_flag=True, help="Also renew the keys of labels and words; other programs cannot write meanwhile."
)
@click.pass_obj
def rekey(cli: Invocation, agent: str | None, index: bool) -> None:
    """Create new data keys and encrypt every row with them.

    If it is interrupted, run it again: it continues. All rows can be read meanwhile.
    """
    with _encrypted(cli) as store, progress(cli, "encrypting rows") as on_progress:
        if store.encryption()["mode"] == "file":
            raise Unsupported("a whole file has only its master key; `engram crypt rotate` renews that")
        rows = store.rekey(agent, index=index, progress=on_progress)
    if cli.json:
        print_json({"rows": rows, "agent": agent, "index": index})
    else:
        click.echo(f"{plural(rows, 'row')} {'is' if rows == 1 else 'are'} encrypted with new keys")


@command.command("destroy")
@click.argument("agent")
@yes_option
@click.pass_obj
def destroy(cli: Invocation, agent: str, yes: bool) -> None:
    """Destroy the keys of AGENT, which deletes all its memories for good.

    Existing backups still contain the keys, protected by the master key of that time.
    """
    from engram.ports import Scope

    with _encrypted(cli) as store:
        if not yes and sys.stdin is not None and sys.stdin.isatty():
            click.confirm(f"Destroy the keys of {one_line(agent)}, and all its memories?", abort=True, err=True)
        if store.encryption()["mode"] != "fields":
            store.destroy(Scope(agent))  # raises an error that says why not
        with cli.brain() as brain:
            removed = brain.retention.erase(brain.agent(agent).name).removed  # includes copies and quarantined memories
        store.destroy(Scope(agent))
    if cli.json:
        print_json({"agent": agent, "removed": dict(removed)})
    else:
        click.echo(f"Destroyed the keys of {one_line(agent)}, and {plural(removed.get('memories', 0), 'memory')}")


@contextmanager
def _encrypted(cli: Invocation) -> Iterator[Encrypts]:
    """Open the store. Raises `Unsupported` if it cannot be encrypted."""
    from engram import wiring
    from engram.ports import Encrypts

    cli.require_database()
    with cli.user(), wiring.opened(cli.settings, cli.settings.db) as store:
        if not isinstance(store, Encrypts):
            raise Unsupported("this store cannot be encrypted; use SQLite or PostgreSQL")
        yield store


def _with_key(settings: Settings, place: str | None) -> tuple[Settings, bool]:
    """Return settings whose master key exists, and True if it was created now."""
    from engram.config import user_file
    from engram.privacy import keys

    if settings.key and not place:
        return settings, False
    where = place or settings.key_file or str(user_file().with_name("engram.key"))
    created = not keys.exists(where)
    if created:
        keys.make(where)
    return replace(settings, key="", key_file=where), created


def _plain_copies(file: Path | None) -> list[Path]:
    """Return the unencrypted copies that Engram made beside the database before it was encrypted."""
    if file is None:
        return []
    return sorted([*file.parent.glob(f"{file.name}.schema-*.bak"), *file.parent.glob(f"{file.name}.before-restore-*")])
