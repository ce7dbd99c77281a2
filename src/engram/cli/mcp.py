"""`engram mcp`: serve the memory over the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engram.cli.invocation import DEFAULT_AGENT, Invocation
from engram.cli.options import Command, agent_option, listen_options, no_project_option
from engram.errors import MissingExtra

if TYPE_CHECKING:
    from engram.engine import Engram


@click.command("mcp", cls=Command)
@agent_option
@click.option(
    "--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True, help="How clients connect."
)
@listen_options(8751, "With http: ")
@no_project_option
@click.pass_obj
def command(cli: Invocation, /, agent: str | None, transport: str, no_project: bool, **listen: Any) -> None:
    """Serve the memory to clients of the Model Context Protocol.

    With stdio the client starts the server, which serves the memory of one agent. With http every request needs an API
    key, which decides the agents it may use; --agent then restricts the server to one of them.
    """
    if no_project:
        from engram.hooks.working_folder import leave_project

        cli.db = leave_project(cli.db)
    name = cli.selected(agent)
    with cli.brain(create=True) as brain:
        if transport == "stdio":
            _serve_stdio(brain, cli.settings.db, DEFAULT_AGENT if name is None else name)
        else:
            _serve_http(brain, name, listen)


def _serve_stdio(brain: Engram, db: str, name: str) -> None:
    from engram.hooks.peer_server import serve_hooks
    from engram.server.mcp.shutdown import ended_by_signals

    with ended_by_signals(), serve_hooks(brain, db, name):
        from engram.server.mcp.server import create, of_agent

        create(of_agent(brain, name)).run("stdio")


def _serve_http(brain: Engram, name: str | None, listen: dict[str, Any]) -> None:
    try:
        from engram.api.limits import Limits
        from engram.server.mcp import http
        from engram.server.rest.run import Binding
    except ImportError as error:
        raise MissingExtra(
            f"the server is not installed ({error.name}); pip install 'engram-learning[mcp,server]'"
        ) from error
    http.serve(brain, Binding(**listen), Limits(), _print_error, name)


def _print_error(message: str) -> None:
    click.echo(message, err=True)
