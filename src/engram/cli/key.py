"""`engram key`: API keys for the servers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import format_time, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, parse_expiry
from engram.cli.render import print_json, print_list, print_model

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram.model.api_key import ApiKey
    from engram.sharing.api_keys import Keys

# Written out, because importing the model would make --help slow; a test compares it with the model.
RIGHTS = ("read", "write", "share", "admin")


@click.group("key", cls=CommandGroup)
def command() -> None:
    """Manage the API keys with which programs use `engram serve` and `engram mcp --transport http`.

    A key is valid for some agents and has some rights. Only its hash is stored: a lost key has to be replaced.
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME", help="Valid for this agent; may be repeated. Default: all."
)
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice(RIGHTS),
    default=("read", "write"),
    show_default=True,
    help="What it may do; may be repeated. admin includes all others.",
)
@click.option("--expires", type=parse_expiry, metavar="WHEN", help="When it expires: a date, or a time from now (30d).")
@click.pass_obj
def create(
    cli: Invocation, name: str, agents: tuple[str, ...], rights: tuple[str, ...], expires: datetime | None
) -> None:
    """Create a key and print it, once; NAME says what it is used for."""
    with cli.brain(create=True) as brain:
        key, token = _keys(brain).create(name, agents=agents or "*", rights=rights, expires_at=expires)
    if cli.json:
        print_json(key.model_dump(mode="json") | {"key": token})
    else:
        click.echo(token)
        cli.notice(f"This is key {key.id}; it is not shown again.")


@command.command("list")
@click.pass_obj
def list_(cli: Invocation) -> None:
    """List the keys, oldest first."""
    with cli.brain() as brain:
        found, now = _keys(brain).every(), brain.sources.now()
    headings = ["ID", "STATE", "RIGHTS", "LAST USED", "EXPIRES", "AGENTS", "NAME"]
    print_list(cli, found, headings, lambda key: _row(key, now), "No keys yet.")


@command.command("revoke")
@click.argument("id", metavar="ID")
@click.pass_obj
def revoke(cli: Invocation, id: str) -> None:
    """Revoke a key: from now on it is refused."""
    with cli.brain() as brain:
        key = _keys(brain).revoke(id)
    print_model(cli, key, f"Revoked {key.id} ({one_line(key.name)})")


def _row(key: ApiKey, now: datetime) -> list[str]:
    status = "good" if key.is_active(now) else "revoked" if key.revoked_at else "expired"
    times = [format_time(key.last_used) or "never", format_time(key.expires_at) or "never"]
    agents = ", ".join(one_line(agent) for agent in key.agents)
    return [key.id, status, ", ".join(key.rights), *times, agents, one_line(key.name)]


def _keys(brain: Engram) -> Keys:

    return brain.keys
