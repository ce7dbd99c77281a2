"""`engram grant`: who may use whose knowledge, for what, and until when."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, agent_option, limit_option, parse_time
from engram.cli.render import preview, print_fields, print_json, print_table, to_json
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram.model.grant import Grant
    from engram.sharing.grants import Grants

F = TypeVar("F", bound=Callable[..., Any])
RIGHTS = click.Choice(["read", "learn", "reshare"])
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@click.group("grant", cls=CommandGroup)
def command() -> None:
    """Share knowledge by consent.

    Everything is private until its owner grants it: to an agent, a group or everyone, for a purpose, with rights and an
    end. Every use is written down, and what is revoked ends at once.
    """


def _until(value: str) -> Any:
    """A moment, or a time from now such as 30d."""
    if ahead := re.fullmatch(r"(\d{1,6})([mhdw])", value.strip(), re.ASCII):
        return timedelta(**{_UNITS[ahead[2]]: int(ahead[1])})
    return parse_time(value)


def subject_options(command: F) -> F:
    """What is shared."""
    for option in reversed(
        (
            click.option("--memory", "memories", multiple=True, metavar="ID", help="This memory; may be repeated."),
            click.option("--pattern", "patterns", multiple=True, metavar="NAME", help="What is behind this pattern."),
            click.option(
                "--domain", "domains", multiple=True, metavar="NAME", help="All of this domain, such as auth."
            ),
            click.option("--tag", "tags", multiple=True, metavar="TAG", help="All with this tag; repeated: with any."),
            click.option("--everything", is_flag=True, help="All that the owner remembers, now and later."),
        )
    ):
        command = option(command)
    return command


def terms_options(command: F) -> F:
    """Under which terms it is shared."""
    for option in reversed(
        (
            click.option(
                "--right", "rights", multiple=True, type=RIGHTS, help="May be repeated. Default: read, learn."
            ),
            click.option("--expires", type=_until, metavar="WHEN", help="When it ends: a date, or in how long (30d)."),
        )
    ):
        command = option(command)
    return command


@command.command("request")
@click.option("--from", "owner", required=True, metavar="AGENT", help="Whose knowledge.")
@agent_option
@subject_options
@click.option("--purpose", required=True, help="What it is for.")
@terms_options
@click.pass_obj
def request(cli: Invocation, /, owner: str, agent: str | None, rights: tuple[str, ...], **terms: Any) -> None:
    """Ask another agent for knowledge."""
    with cli.brain() as brain:
        grant = cli.writer(brain, agent).grants.request(owner, **terms, **_given(rights))
    _print_grant(cli, grant, f"{one_line(grant.owner)} has to approve it: engram grant approve {grant.id}")


@command.command("offer")
@click.option("--to", required=True, metavar="AGENT", help="To whom.")
@agent_option
@subject_options
@click.option("--purpose", required=True, help="What it is for.")
@terms_options
@click.pass_obj
def offer(cli: Invocation, /, to: str, agent: str | None, rights: tuple[str, ...], **terms: Any) -> None:
    """Offer knowledge to another agent, which has to approve it."""
    with cli.brain() as brain:
        grant = cli.writer(brain, agent).grants.offer(to, **terms, **_given(rights))
    _print_grant(cli, grant, f"{one_line(grant.receiver)} has to approve it: engram grant approve {grant.id}")


@command.command("approve")
@click.argument("id")
@click.option("--agent", metavar="NAME", help="Who approves. Default: whoever has to.")
@terms_options
@click.pass_obj
def approve(cli: Invocation, id: str, agent: str | None, rights: tuple[str, ...], expires: Any) -> None:
    """Agree to a request or an offer."""
    with cli.brain() as brain:
        grant = _party(brain, id, agent, deciding=True).approve(id, rights=rights or None, expires=expires)
    _print_grant(cli, grant)


@command.command("deny")
@click.argument("id")
@click.option("--agent", metavar="NAME", help="Who denies. Default: whoever has to decide.")
@click.pass_obj
def deny(cli: Invocation, id: str, agent: str | None) -> None:
    """Turn a request or an offer down."""
    with cli.brain() as brain:
        grant = _party(brain, id, agent, deciding=True).deny(id)
    _print_grant(cli, grant)


@command.command("revoke")
@click.argument("id")
@click.option("--agent", metavar="NAME", help="Who revokes. Default: the owner.")
@click.pass_obj
def revoke(cli: Invocation, id: str, agent: str | None) -> None:
    """End a grant at once, and take back what was derived from it."""
    with cli.brain() as brain:
        done = _party(brain, id, agent).revoke(id)
    if cli.json:
        print_json(done.model_dump(mode="json"))
        return
    _print_grant(cli, done.grant)
    if done.copies:
        click.echo(f"{plural(done.copies, 'copy')} set apart.".replace("copys", "copies"))
    if done.quarantined:
        click.echo(f"{plural(len(done.quarantined), 'derived memory')} set apart.".replace("memorys", "memories"))


@command.command("list")
@click.option("--agent", metavar="NAME", help="Whose grants. Default: the `agent` setting, else all.")
@click.option(
    "--state",
    "wanted",
    type=click.Choice(["requested", "offered", "granted", "denied", "revoked", "expired"]),
    help="Only those that stand so.",
)
@click.pass_obj
def list_(cli: Invocation, agent: str | None, wanted: str | None) -> None:
    """List grants: given, received, asked for and offered."""
    with cli.brain() as brain:
        named = agent if agent is not None else cli.settings.agent or None
        found = brain.agent(named).grants.list(wanted) if named is not None else _all(brain, wanted)
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("No grants.")
    else:
        rows = [
            [
                grant.id,
                grant.state,
                one_line(grant.owner),
                _receiver(grant),
                ", ".join(grant.rights),
                format_time(grant.expires_at) if grant.expires_at else "-",
                preview(str(grant.subject)),
            ]
            for grant in found
        ]
        print_table(["ID", "STATE", "OWNER", "RECEIVER", "RIGHTS", "ENDS", "WHAT"], rows)


@command.command("show")
@click.argument("id")
@click.pass_obj
def show(cli: Invocation, id: str) -> None:
    """Show one grant."""
    with cli.brain() as brain:
        _print_grant(cli, _party(brain, id, None).get(id))


@command.command("uses")
@click.argument("id")
@click.option("--agent", metavar="NAME", help="Who asks: an owner sees all uses, others their own. Default: the owner.")
@limit_option(100)
@click.pass_obj
def uses(cli: Invocation, id: str, agent: str | None, limit: int) -> None:
    """Show who used a grant, when and for what."""
    with cli.brain() as brain:
        found = _party(brain, id, agent).uses(id, limit)
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("It was not used yet.")
    else:
        rows = [[format_time(use.at), one_line(use.agent), use.action, str(use.count)] for use in found]
        print_table(["WHEN", "WHO", "WHAT", "HOW MANY"], rows)


@command.command("sources")
@agent_option
@click.pass_obj
def sources(cli: Invocation, agent: str | None) -> None:
    """Show whose knowledge an agent may use, and how far it has reason to trust each."""
    with cli.brain() as brain:
        found = cli.writer(brain, agent).grants.sources()
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("Nobody shares anything with this agent.")
    else:
        rows = [
            [one_line(each.name), each.kind, f"{each.trust:.2f}", f"{each.memories or 0:,}", each.id] for each in found
        ]
        print_table(["SOURCE", "BY", "TRUST", "MEMORIES", "ID"], rows)


@command.command("group")
@click.argument("name", required=False)
@click.option("--add", multiple=True, metavar="AGENT", help="Take this agent in; may be repeated.")
@click.option("--remove", multiple=True, metavar="AGENT", help="Take this agent out; may be repeated.")
@click.pass_obj
def group(cli: Invocation, name: str | None, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Show the groups, or change who is in one. Share with it as `group:NAME`."""
    with cli.brain() as brain:
        ledger = brain.ledger
        if name is not None and (add or remove):
            added = [brain.agent(each).name for each in add]
            ledger.regroup(name, add=added, remove=remove, redactor=brain.redactor)
        groups = {each: sorted(members) for each, members in sorted(ledger.groups().items()) if name in {None, each}}
    if cli.json:
        print_json(groups)
    elif not groups:
        click.echo("No groups." if name is None else f"Nobody is in the group {one_line(name)}.")
    else:
        print_table(["GROUP", "AGENTS"], [[one_line(each), one_line(", ".join(who))] for each, who in groups.items()])


def _given(rights: tuple[str, ...]) -> dict[str, Any]:
    return {"rights": rights} if rights else {}


def _party(brain: Engram, id: str, agent: str | None, *, deciding: bool = False) -> Grants:
    """The agent that speaks about a grant: the one named, else the one whose word counts."""
    if agent is not None:
        return brain.agent(agent).grants
    grant = brain.ledger.grant(id)
    return brain.agent(grant.receiver if deciding and grant.made_by == grant.owner else grant.owner).grants


def _all(brain: Engram, wanted: str | None) -> list[Grant]:
    ledger = brain.ledger
    now = ledger.now()
    shown = [grant.model_copy(update={"state": grant.state_at(now)}) for grant in ledger.grants()]
    return [grant for grant in shown if wanted in {None, grant.state}]


def _receiver(grant: Grant) -> str:
    return f"group:{one_line(grant.receiver)}" if grant.audience == "group" else one_line(grant.receiver)


def _print_grant(cli: Invocation, grant: Grant, next_step: str = "") -> None:
    if cli.json:
        print_json(grant.model_dump(mode="json"))
        return
    print_fields(
        {
            "grant": grant.id,
            "state": grant.state,
            "owner": one_line(grant.owner),
            "receiver": _receiver(grant),
            "what": one_line(str(grant.subject)),
            "rights": ", ".join(grant.rights),
            "purpose": one_line(grant.purpose),
            "ends": format_time(grant.expires_at) if grant.expires_at else "",
        }
    )
    if next_step:
        click.echo(next_step)


def share(cli: Invocation, owner: str, to: str, **terms: Any) -> None:
    """Share at once, and say so."""
    rights = terms.pop("rights", ())
    with cli.brain() as brain:
        if owner not in brain.agents():
            raise NotFound(f"there is no agent {owner!a}; `engram agent list` shows who there is")
        grant = brain.agent(owner).grants.share(to, **terms, **_given(rights))
    _print_grant(cli, grant)
