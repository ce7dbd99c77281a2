"""`engram install`: configure a coding agent to use Engram."""

from __future__ import annotations

from pathlib import Path

import click

from engram.cli.invocation import Invocation
from engram.cli.options import Command, agent_option, client_argument
from engram.cli.render import print_json

scope_option = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="For all projects of the user, or only for the one in this folder.",
)


@click.command("install", cls=Command)
@client_argument
@scope_option
@agent_option
@click.option("--block", is_flag=True, help="Let the hook block what a check blocks; without it, it only warns.")
@click.option("--print", "show", is_flag=True, help="Print what would be added to which files, and change nothing.")
@click.pass_obj
def command(cli: Invocation, client: str, scope: str, agent: str | None, block: bool, show: bool) -> None:
    """Add the MCP server and the hooks to the configuration of a coding agent.

    Existing entries are left unchanged. `engram uninstall` undoes it.
    """
    from engram.config import client_folder
    from engram.hooks.install import Installation, install, planned_changes

    installation = Installation(client, scope, agent, cli.db, block, own=client_folder(client))  # type: ignore[arg-type]
    if not show:
        print_changed(cli, install(installation), "Wrote", "Everything is installed already.")
        return
    planned = planned_changes(installation)
    if cli.json:
        print_json([{"file": str(change.path), "add": change.added} for change in planned])
    else:
        click.echo("\n\n".join(f"# add to {change.path}\n{change.added}" for change in planned))


def print_changed(cli: Invocation, files: list[Path], verb: str, nothing: str) -> None:
    """Print the files that were changed."""
    if cli.json:
        print_json({"changed": [str(file) for file in files]})
    else:
        click.echo("\n".join(f"{verb} {file}" for file in files) or nothing)
