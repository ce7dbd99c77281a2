"""`engram uninstall`: remove Engram from the configuration of a coding agent."""

from __future__ import annotations

import click

from engram.cli.install import print_changed, scope_option
from engram.cli.invocation import Invocation
from engram.cli.options import Command, client_argument


@click.command("uninstall", cls=Command)
@client_argument
@scope_option
@click.pass_obj
def command(cli: Invocation, client: str, scope: str) -> None:
    """Undo `engram install`: a file that was not changed since is restored byte for byte.

    The memories stay.
    """
    from engram.config import client_folder
    from engram.hooks.install import Installation, uninstall

    installation = Installation(client, scope, own=client_folder(client))  # type: ignore[arg-type]
    print_changed(cli, uninstall(installation), "Restored", "There was nothing to undo.")
