"""`engram uninstall`: takes the memory out of a coding agent again."""

from __future__ import annotations

import click

from engram.cli.install import CLIENTS, SCOPES
from engram.cli.invocation import Invocation
from engram.cli.options import Command
from engram.cli.render import print_json


@click.command("uninstall", cls=Command)
@click.argument("client", type=CLIENTS)
@click.option("--scope", type=SCOPES, default="user", show_default=True, help="For all folders, or for this one.")
@click.pass_obj
def command(cli: Invocation, client: str, scope: str) -> None:
    """Undo `engram install`: a file that nobody changed since is as it was, byte for byte.

    The memories stay.
    """
    from engram.config import client_folder
    from engram.hooks.install import Wish, uninstall

    wish = Wish(client, scope, own=client_folder(client))  # type: ignore[arg-type]
    changed = [str(path) for path in uninstall(wish)]
    if cli.json:
        print_json({"changed": changed})
    for path in () if cli.json else changed:
        click.echo(f"Restored {path}")
    if not changed and not cli.json:
        click.echo("There was nothing to undo.")
