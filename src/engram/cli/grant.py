"""`engram grant`: share knowledge between agents by consent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, agent_option, limit_option, option_group, parse_expiry
from engram.cli.render import preview, print_fields, print_json, print_list, print_table
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.engine import Engram
    from engram.model.grant import Grant
    from engram.sharing.grants import Grants

RIGHTS = click.Choice(["read", "learn", "reshare"])

subject_options = option_group(
    click.option("--memory", "memories", multiple=True, metavar="ID", help="This memory; may be repeated."),
    click.option("--pattern", "patterns", multiple=True, metavar="NAME", help="The memories behind this pattern."),
    click.option("--domain", "domains", multiple=True, metavar="NAME", help="Everything in this domain, such as auth."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Everything with this tag; repeated: with any."),
    click.option("--everything", is_flag=True, help="All memories of the owner, now and later."),
)
"""Options for what is shared."""
terms_options = option_group(
    click.option("--right", "rights", multiple=True, type=RIGHTS, help="May be repeated. Default: read, learn."),
    click.option(
        "--expires", type=parse_expiry, metavar="WHEN", help="When it ends: a date, or a time from now (30d)."
    ),
)
"""Options for the rights and the end of a grant."""


@click.group("grant", cls=CommandGroup)
def command() -> None:
    """Share knowledge between agents by consent.

    An agent's knowledge is private until it grants access to another agent, a group or everyone, for a purpose, with
    rights and an end. Every use is logged, and a revoked grant ends at once.
    """


@command.command("request")
@click.option("--from", "owner", required=True, metavar="AGENT", help="The agent that owns the knowledge.")
@agent_option
@subject_options
@click.option("--purpose", required=True, help="What it will be used for.")
@terms_options
@click.pass_obj
def request(cli: Invocation, /, owner: str, agent: str | None, rights: tuple[str, ...], **terms: Any) -> None:
    """Request access to another agent's knowledge."""
    with cli.brain() as brain:
        grant = cli.writer(brain, agent).grants.request(owner, **terms, **_given(rights))
    _print_grant(cli, grant, f"{one_line(grant.owner)} has to approve it: engram grant approve {grant.id}")


@command.command("offer")
@click.option("--to", required=True, metavar="AGENT", help="The receiving agent.")
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
@click.option("--agent", metavar="NAME", help="The agent that approves. Default: the one that has to decide.")
@terms_options
@click.pass_obj
def approve(cli: Invocation, id: str, agent: str | None, rights: tuple[str, ...], expires: Any) -> None:
    """Approve a request or an offer."""
    with cli.brain() as brain:
        grant = _party(brain, id, agent, deciding=True).approve(id, rights=rights or None, expires=expires)
    _print_grant(cli, grant)


@command.command("deny")
@click.argument("id")
@click.option("--agent", metavar="NAME", help="The agent that denies. Default: the one that has to decide.")
@click.pass_obj
def deny(cli: Invocation, id: str, agent: str | None) -> None:
    """Deny a request or an offer."""
    with cli.brain() as brain:
        grant = _party(brain, id, agent, deciding=True).deny(id)
    _print_grant(cli, grant)


@command.command("revoke")
@click.argument("id")
@click.option("--agent", metavar="NAME", help="The agent that revokes. Default: the owner.")
@click.pass_obj
def revoke(cli: Invocation, id: str, agent: str | None) -> None:
    """Revoke a grant at once, and quarantine what was derived from it."""
    with cli.brain() as brain:
        done = _party(brain, id, agent).revoke(id)
    if cli.json:
        print_json(done.model_dump(mode="json"))
        return
    _print_grant(cli, done.grant)
    if done.copies:
        click.echo(f"Quarantined {plural(done.copies, 'copy')}.")
    if done.quarantined:
        click.echo(f"Quarantined {plural(len(done.quarantined), 'derived memory')}.")


@command.command("list")
@click.option("--agent", metavar="NAME", help="Grants of this agent. Default: the `agent` setting, else all.")
@click.option(
    "--state",
    "wanted",
    type=click.Choice(["requested", "offered", "granted", "denied", "revoked", "expired"]),
    help="Only grants in this state.",
)
@click.pass_obj
def list_(cli: Invocation, agent: str | None, wanted: str | None) -> None:
    """List grants: given, received, requested, offered."""
    with cli.brain() as brain:
        name = cli.selected(agent)
        found = brain.agent(name).grants.list(wanted) if name is not None else _all_grants(brain, wanted)

    def row(grant: Grant) -> list[str]:
        ends = format_time(grant.expires_at) if grant.expires_at else "-"
        rights, subject = ", ".join(grant.rights), preview(str(grant.subject))
        return [grant.id, grant.state, one_line(grant.owner), _receiver(grant), rights, ends, subject]

    print_list(cli, found, ["ID", "STATE", "OWNER", "RECEIVER", "RIGHTS", "ENDS", "WHAT"], row, "No grants.")


@command.command("show")
@click.argument("id")
@click.pass_obj
def show(cli: Invocation, id: str) -> None:
    """Show one grant."""
    with cli.brain() as brain:
        _print_grant(cli, _party(brain, id, None).get(id))


@command.command("uses")
@click.argument("id")
@click.option(
    "--agent", metavar="NAME", help="Uses that this agent may see: an owner all, others their own. Default: the owner."
)
@limit_option(100)
@click.pass_obj
def uses(cli: Invocation, id: str, agent: str | None, limit: int) -> None:
    """List the uses of a grant: when, by whom and for what."""
    with cli.brain() as brain:
        found = _party(brain, id, agent).uses(id, limit)
    print_list(
        cli,
        found,
        ["WHEN", "AGENT", "ACTION", "COUNT"],
        lambda use: [format_time(use.at), one_line(use.agent), use.action, str(use.count)],
        "It was not used yet.",
    )


@command.command("sources")
@agent_option
@click.pass_obj
def sources(cli: Invocation, agent: str | None) -> None:
    """List the agents and files whose knowledge an agent may use, and how much each is trusted."""
    with cli.brain() as brain:
        found = cli.writer(brain, agent).grants.sources()
    print_list(
        cli,
        found,
        ["SOURCE", "BY", "TRUST", "MEMORIES", "ID"],
        lambda each: [one_line(each.name), each.kind, f"{each.trust:.2f}", f"{each.memories or 0:,}", each.id],
        "Nothing is shared with this agent.",
    )


@command.command("group")
@click.argument("name", required=False)
@click.option("--add", multiple=True, metavar="AGENT", help="Add this agent; may be repeated.")
@click.option("--remove", multiple=True, metavar="AGENT", help="Remove this agent; may be repeated.")
@click.pass_obj
def group(cli: Invocation, name: str | None, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """List the groups, or change the members of one. Share with a group as `group:NAME`."""
    with cli.brain() as brain:
        ledger = brain.ledger
        if name is not None and (add or remove):
            added = [brain.agent(each).name for each in add]
            ledger.regroup(name, add=added, remove=remove, redactor=brain.redactor)
        groups = {each: sorted(members) for each, members in sorted(ledger.groups().items()) if name in {None, each}}
    if cli.json:
        print_json(groups)
    elif not groups:
        click.echo("No groups." if name is None else f"The group {one_line(name)} has no members.")
    else:
        rows = [[one_line(each), one_line(", ".join(members))] for each, members in groups.items()]
        print_table(["GROUP", "AGENTS"], rows)


def _given(rights: tuple[str, ...]) -> dict[str, Any]:
    return {"rights": rights} if rights else {}


def _party(brain: Engram, id: str, agent: str | None, *, deciding: bool = False) -> Grants:
    """Return the grants as one agent sees them: the one named, else the owner or the one that has to decide."""
    if agent is not None:
        return brain.agent(agent).grants
    grant = brain.ledger.grant(id)
    return brain.agent(grant.receiver if deciding and grant.made_by == grant.owner else grant.owner).grants


def _all_grants(brain: Engram, wanted: str | None) -> list[Grant]:
    """Return the grants of all agents with their present state."""
    ledger = brain.ledger
    now = ledger.now()
    grants = [grant.model_copy(update={"state": grant.state_at(now)}) for grant in ledger.grants()]
    return [grant for grant in grants if wanted in {None, grant.state}]


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
    """Grant access at once as the owner, and print the grant."""
    rights = terms.pop("rights", ())
    with cli.brain() as brain:
        if owner not in brain.agents():
            raise NotFound(f"there is no agent {owner!a}; `engram agent list` shows who there is")
        grant = brain.agent(owner).grants.share(to, **terms, **_given(rights))
    _print_grant(cli, grant)
