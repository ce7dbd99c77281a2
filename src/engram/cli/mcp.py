"""`engram mcp`: the memory for clients of the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engram.cli.invocation import DEFAULT_AGENT, Invocation
from engram.cli.options import Command
from engram.errors import MissingExtra

if TYPE_CHECKING:
    from engram.engine import Engram


@click.command("mcp", cls=Command)
@click.option("--agent", metavar="NAME", help="Whose memory. Default: the `agent` setting, else `default`.")
@click.option(
    "--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True, help="How clients connect."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="With http: the address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8751,
    show_default=True,
    help="With http: the port; 0 for any that is free.",
)
@click.option("--certfile", type=click.Path(exists=True, dir_okay=False), help="With http: the certificate, for TLS.")
@click.option("--keyfile", type=click.Path(exists=True, dir_okay=False), help="With http: the key of the certificate.")
@click.option(
    "--insecure-behind-proxy",
    "behind_proxy",
    is_flag=True,
    help="With http: listen without TLS, because a proxy in front speaks it.",
)
@click.option(
    "--allowed-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="With http: what callers call this server; may be repeated.",
)
@click.option(
    "--no-project",
    is_flag=True,
    help="Take no settings from an engram.toml of the working folder, which somebody else may have written.",
)
@click.pass_obj
def command(cli: Invocation, /, agent: str | None, transport: str, no_project: bool, **where: Any) -> None:
    """Serve the memory to clients of the Model Context Protocol.

    With stdio the client starts it, and everything is about the memory of one agent. With http every request needs a
    key, and the key says whose memory it is about; --agent then narrows it to one.
    """
    if no_project:
        from engram.hooks.chdir import leave_project

        cli.db = leave_project(cli.db)
    name = agent if agent is not None else cli.settings.agent or None
    with cli.brain(create=True) as brain:
        if transport == "stdio":
            _talk(brain, cli.settings.db, DEFAULT_AGENT if name is None else name)
        else:
            _listen(brain, name, where)


def _talk(brain: Engram, db: str, name: str) -> None:
    from engram.hooks.peer_server import offered
    from engram.server.mcp.shutdown import ended_by_signals

    with ended_by_signals(), offered(brain, db, name):
        from engram.server.mcp.server import create, of_agent

        create(of_agent(brain, name)).run("stdio")


def _listen(brain: Engram, name: str | None, where: dict[str, Any]) -> None:
    try:
        from engram.api.limits import Limits
        from engram.server.mcp import http
        from engram.server.rest.run import Binding
    except ImportError as error:
        raise MissingExtra(
            f"the server is not installed ({error.name}); pip install 'engram-learning[mcp,server]'"
        ) from error
    http.serve(brain, Binding(**where), Limits(), _say, name)


def _say(message: str) -> None:
    click.echo(message, err=True)
