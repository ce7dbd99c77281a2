"""`engram install`: the memory in a coding agent."""

from __future__ import annotations

import click

from engram.cli.invocation import Invocation
from engram.cli.options import Command
from engram.cli.render import print_json

CLIENTS = click.Choice(["claude", "codex", "cursor"])
SCOPES = click.Choice(["user", "project"])


@click.command("install", cls=Command)
@click.argument("client", type=CLIENTS)
@click.option("--scope", type=SCOPES, default="user", show_default=True, help="For all folders, or for this one.")
@click.option("--agent", metavar="NAME", help="Whose memory. Default: the `agent` setting, else `default`.")
@click.option("--block", is_flag=True, help="Let the hook stop what a check blocks; without it, it only warns.")
@click.option("--print", "show", is_flag=True, help="Print what would be added to which files, and change nothing.")
@click.pass_obj
def command(cli: Invocation, client: str, scope: str, agent: str | None, block: bool, show: bool) -> None:
    """Write the configuration of a coding agent: the MCP server and the hooks.

    What is there stays as it is. `engram uninstall` undoes it.
    """
    from engram.config import client_folder
    from engram.hooks.install import Wish, changes, install

    wish = Wish(client, scope, agent, cli.db, block, own=client_folder(client))  # type: ignore[arg-type]
    if show:
        planned = changes(wish)
        if cli.json:
            print_json([{"file": str(change.path), "add": change.shown} for change in planned])
        else:
            click.echo("\n\n".join(f"# add to {change.path}\n{change.shown}" for change in planned))
        return
    changed = [str(path) for path in install(wish)]
    if cli.json:
        print_json({"changed": changed})
    for path in () if cli.json else changed:
        click.echo(f"Wrote {path}")
    if not changed and not cli.json:
        click.echo("Everything is there already.")
