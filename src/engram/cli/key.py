"""`engram key`: the keys with which others come in."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import format_time, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup
from engram.cli.render import print_json, print_table, to_json

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram.model.api_key import ApiKey
    from engram.sharing.api_keys import Keys

# Written out, because importing the model would make --help slow; a test compares it with the model.
RIGHTS = ("read", "write", "share", "admin")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _until(value: str) -> datetime:
    """The moment that a date, or a time from now such as 30d, names."""
    from engram.clock import Sources, aware

    text = value.strip()
    try:
        if text[-1:] in _UNITS and text[:-1].isdecimal() and text.isascii():
            return Sources().now() + timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
        return aware(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is neither a date such as 2027-01-31 nor a time such as 30d.") from None


@click.group("key", cls=CommandGroup)
def command() -> None:
    """The keys with which programs come in through `engram serve` and the other doors.

    A key is for some agents and has some rights. Only its hash is kept: whoever loses a key needs a new one.
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME", help="An agent it is for; may be repeated. Default: all agents."
)
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice(RIGHTS),
    default=("read", "write"),
    show_default=True,
    help="What it may do; may be repeated. admin includes all.",
)
@click.option("--expires", type=_until, metavar="WHEN", help="Until when it is good: a date, or a time from now (30d).")
@click.pass_obj
def create(
    cli: Invocation, name: str, agents: tuple[str, ...], rights: tuple[str, ...], expires: datetime | None
) -> None:
    """Make a key and print it, once; NAME says what it is for."""
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
    """List the keys, the oldest first."""
    with cli.brain() as brain:
        found, now = _keys(brain).every(), brain.sources.now()
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("No keys yet.")
    else:
        heads = ["ID", "STATE", "RIGHTS", "LAST USED", "EXPIRES", "AGENTS", "NAME"]
        print_table(heads, [_row(key, now) for key in found])


@command.command("revoke")
@click.argument("id", metavar="ID")
@click.pass_obj
def revoke(cli: Invocation, id: str) -> None:
    """Refuse a key from now on."""
    with cli.brain() as brain:
        key = _keys(brain).revoke(id)
    if cli.json:
        print_json(key.model_dump(mode="json"))
    else:
        click.echo(f"Revoked {key.id} ({one_line(key.name)})")


def _row(key: ApiKey, now: datetime) -> list[str]:
    standing = "good" if key.is_active(now) else "revoked" if key.revoked_at else "expired"
    times = [format_time(key.last_used) or "never", format_time(key.expires_at) or "never"]
    agents = ", ".join(one_line(agent) for agent in key.agents)
    return [key.id, standing, ", ".join(key.rights), *times, agents, one_line(key.name)]


def _keys(brain: Engram) -> Keys:

    return brain.keys
