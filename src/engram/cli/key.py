"""`engram key`: the keys with which others come in."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from engram.cli.options import Group
from engram.cli.render import dump, print_json, print_table
from engram.cli.state import State
from engram.cli.text import inline, moment

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram.model.access import ApiKey
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


@click.group("key", cls=Group)
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
def create(state: State, name: str, agents: tuple[str, ...], rights: tuple[str, ...], expires: datetime | None) -> None:
    """Make a key and print it, once; NAME says what it is for."""
    with state.brain(create=True) as brain:
        key, token = _keys(brain).create(name, agents=agents or "*", rights=rights, expires_at=expires)
    if state.json:
        print_json(key.model_dump(mode="json") | {"key": token})
    else:
        click.echo(token)
        state.notice(f"This is key {key.id}; it is not shown again.")


@command.command("list")
@click.pass_obj
def list_(state: State) -> None:
    """List the keys, the oldest first."""
    with state.brain() as brain:
        found, now = _keys(brain).every(), brain.sources.now()
    if state.json:
        print_json(dump(found))
    elif not found:
        click.echo("No keys yet.")
    else:
        heads = ["ID", "STATE", "RIGHTS", "LAST USED", "EXPIRES", "AGENTS", "NAME"]
        print_table(heads, [_row(key, now) for key in found])


@command.command("revoke")
@click.argument("id", metavar="ID")
@click.pass_obj
def revoke(state: State, id: str) -> None:
    """Refuse a key from now on."""
    with state.brain() as brain:
        key = _keys(brain).revoke(id)
    if state.json:
        print_json(key.model_dump(mode="json"))
    else:
        click.echo(f"Revoked {key.id} ({inline(key.name)})")


def _row(key: ApiKey, now: datetime) -> list[str]:
    standing = "good" if key.live(now) else "revoked" if key.revoked_at else "expired"
    times = [moment(key.last_used) or "never", moment(key.expires_at) or "never"]
    agents = ", ".join(inline(agent) for agent in key.agents)
    return [key.id, standing, ", ".join(key.rights), *times, agents, inline(key.name)]


def _keys(brain: Engram) -> Keys:

    return brain.keys
