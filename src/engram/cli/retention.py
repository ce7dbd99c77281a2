"""`engram retention`: what goes by itself, and what is held."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import KIND, CommandGroup, parse_fraction
from engram.cli.render import print_json, print_table, progress, to_json
from engram.cli.upkeep import archive_beside, span

if TYPE_CHECKING:
    from engram.model.retention import LegalHold, RetentionPolicy, RetentionReport

OUTCOMES = click.Choice(["success", "partial", "failure"])
ACTIONS = click.Choice(["forget", "archive"])


@click.group("retention", cls=CommandGroup)
def command() -> None:
    """Say how long memories are kept, and what must be kept whatever happens.

    Policies run with `engram retention run`, and with every `engram upkeep forget`. What is pinned or held stays.
    """


@command.command("set")
@click.argument("name")
@click.option("--kind", "kinds", multiple=True, type=KIND, metavar="KIND", help="Only this kind; may be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeated: with all of them.")
@click.option("--older-than", type=span, metavar="TIME", help="Only what was stored longer ago, such as 90d.")
@click.option("--weaker-than", type=parse_fraction, metavar="0..1", help="Only what has faded below this strength.")
@click.option("--outcome", type=OUTCOMES, help="Only what went like this.")
@click.option(
    "--action",
    type=ACTIONS,
    required=True,
    help="Leave nothing of it, or move it to an archive, from which `engram upkeep forget --restore` brings it back.",
)
@click.option("--agent", metavar="NAME", help="Only memories of this agent. Default: those of all agents.")
@click.pass_obj
def set_(
    cli: Invocation,
    name: str,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
    older_than: timedelta | None,
    weaker_than: float | None,
    outcome: str | None,
    action: str,
    agent: str | None,
) -> None:
    """Set a policy: memories that are all that it says go at the next run.

    A policy of the same name is replaced.
    """
    with cli.brain(create=True) as brain:
        policy = brain.retention.set(
            name,
            kinds=kinds,
            tags=tags,
            older_than=older_than,
            weaker_than=weaker_than,
            outcome=outcome,
            action=action,
            agent=agent,
        )
    if cli.json:
        print_json(policy.model_dump(mode="json"))
    else:
        click.echo(f"Set {one_line(policy.name)}: {_said(policy)}.")


@command.command("list")
@click.pass_obj
def list_(cli: Invocation) -> None:
    """List the policies, in the order in which they run."""
    with cli.brain() as brain:
        found = brain.retention.policies()
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("No policies.")
    else:
        rows = [[one_line(each.name), one_line(each.agent or "everybody"), each.action, _said(each)] for each in found]
        print_table(["NAME", "AGENT", "ACTION", "WHAT"], rows)


@command.command("remove")
@click.argument("name")
@click.pass_obj
def remove(cli: Invocation, name: str) -> None:
    """Give a policy up."""
    with cli.brain() as brain:
        policy = brain.retention.remove(name)
    if cli.json:
        print_json(policy.model_dump(mode="json"))
    else:
        click.echo(f"Removed {one_line(policy.name)}.")


@command.command("run")
@click.option("--dry-run", is_flag=True, help="Only say how much would go.")
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to keep what is archived. Default: a new file beside the database.",
)
@click.option("--agent", metavar="NAME", help="Only memories of this agent. Default: those of all agents.")
@click.pass_obj
def run(cli: Invocation, dry_run: bool, archive: Path | None, agent: str | None) -> None:
    """Let go of what fulfils a policy, and say how much went, by which.

    It can be stopped at any time; the next run goes on with what is left.
    """
    with cli.brain() as brain:
        retention = brain.retention
        archives = any(policy.action == "archive" for policy in retention.policies())
        target = archive or (archive_beside(cli, brain.sources.now()) if archives and not dry_run else None)
        with progress(cli, "looking") as on_progress:
            agents = None if agent is None else [brain.agent(agent).name]
            report = retention.run(target, agents=agents, dry_run=dry_run, progress=on_progress)
    if cli.json:
        print_json(report.model_dump(mode="json"))
    else:
        print_report(report)


@command.command("hold")
@click.argument("reason")
@click.option("--agent", metavar="NAME", help="Everything of this agent, or only its memories that are named besides.")
@click.option("--memory", "memories", multiple=True, metavar="ID", help="This memory; may be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Memories with this tag; may be repeated.")
@click.option("--session", "sessions", multiple=True, metavar="NAME", help="Memories of this session; may be repeated.")
@click.pass_obj
def hold(
    cli: Invocation,
    reason: str,
    agent: str | None,
    memories: tuple[str, ...],
    tags: tuple[str, ...],
    sessions: tuple[str, ...],
) -> None:
    """Keep memories until they are released: no policy, no `forget` and no `agent erase` takes them.

    The REASON is shown to whoever tries.
    """
    with cli.brain() as brain:
        made = brain.retention.hold(reason, agent=agent, memories=memories, tags=tags, sessions=sessions)
    if cli.json:
        print_json(made.model_dump(mode="json"))
    else:
        click.echo(f"Held by {made.id}: {_covered(made)}.")


@command.command("holds")
@click.pass_obj
def holds(cli: Invocation) -> None:
    """List what is held, and why."""
    with cli.brain() as brain:
        found = brain.retention.holds()
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("Nothing is held.")
    else:
        rows = [[each.id, format_time(each.at), _covered(each), one_line(each.reason)] for each in found]
        print_table(["ID", "SINCE", "WHAT", "WHY"], rows)


@command.command("release")
@click.argument("id")
@click.pass_obj
def release(cli: Invocation, id: str) -> None:
    """End a hold."""
    with cli.brain() as brain:
        ended = brain.retention.release(id)
    if cli.json:
        print_json(ended.model_dump(mode="json"))
    else:
        click.echo(f"Released {ended.id}: {_covered(ended)}.")


def print_report(report: RetentionReport) -> None:
    """What went by which policy, for a person."""
    would = "Would " if report.dry_run else ""
    words = {"forget": ("forget", "Forgot"), "archive": ("archive", "Archived")}
    for each in report.gone:
        told = f"{would}{words[each.action][0]}" if would else words[each.action][1]
        more = ", ".join(f"{count:,} {name}" for name, count in each.removed.items() if name in _BESIDES)
        also = f" (and {more})" if more else ""
        click.echo(
            f"{told} {plural(each.memories, 'memory')} of {one_line(each.agent)} by {one_line(each.policy)}{also}."
        )
    if not report.gone:
        click.echo("No policy has anything to let go of.")
    if report.archive is not None:
        click.echo(f"  Archived in {one_line(report.archive)}")
    for reason, count in report.kept.items():
        click.echo(f"  Kept {plural(count, 'memory')}: {reason}")


_BESIDES = ("derived", "copies", "quarantine", "checks", "shown", "sessions", "archives")


def _said(policy: RetentionPolicy) -> str:
    """What a policy is about, on one line."""
    parts = [
        " or ".join(policy.kinds) if policy.kinds else "memories",
        f"tagged {', '.join(map(one_line, policy.tags))}" if policy.tags else "",
        f"older than {_days(policy.older_than)}" if policy.older_than is not None else "",
        f"weaker than {policy.weaker_than:g}" if policy.weaker_than is not None else "",
        f"that went as {policy.outcome}" if policy.outcome is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _days(time: timedelta) -> str:
    return f"{time.days}d" if time == timedelta(days=time.days) else f"{time / timedelta(hours=1):g}h"


def _covered(hold: LegalHold) -> str:
    """What a hold keeps, on one line."""
    parts = [f"memory {id}" for id in hold.memories]
    parts += [f"tag {one_line(tag)}" for tag in hold.tags] + [f"session {one_line(name)}" for name in hold.sessions]
    of = "" if hold.agent is None else f" of {one_line(hold.agent)}"
    return f"{', '.join(parts) or 'everything'}{of}"
