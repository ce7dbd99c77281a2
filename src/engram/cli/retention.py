"""`engram retention`: policies that delete or archive memories, and legal holds that keep them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import KIND, CommandGroup, parse_duration, parse_fraction
from engram.cli.render import print_json, print_list, print_model, progress
from engram.errors import InvalidInput

if TYPE_CHECKING:
    from engram.model.retention import LegalHold, RetentionPolicy, RetentionReport

OUTCOMES = click.Choice(["success", "partial", "failure"])
ACTIONS = click.Choice(["forget", "archive"])
ACTION_VERBS = {"forget": ("forget", "Forgot"), "archive": ("archive", "Archived")}
REMOVED_TOO = ("derived", "copies", "quarantine", "checks", "shown", "sessions", "archives")
"""Counts of a retention report that are printed beside the number of memories."""

policy_agent_option = click.option(
    "--agent", metavar="NAME", help="Only memories of this agent. Default: those of all agents."
)


@click.group("retention", cls=CommandGroup)
def command() -> None:
    """Set how long memories are kept, and which ones must be kept.

    Policies run with `engram retention run`, and with every `engram upkeep forget`. Pinned and held memories stay.
    """


@command.command("set")
@click.argument("name")
@click.option("--kind", "kinds", multiple=True, type=KIND, metavar="KIND", help="Only this kind; may be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeated: with all of them.")
@click.option("--older-than", type=parse_duration, metavar="TIME", help="Only what was stored longer ago, such as 90d.")
@click.option("--weaker-than", type=parse_fraction, metavar="0..1", help="Only what has faded below this strength.")
@click.option("--outcome", type=OUTCOMES, help="Only what had this outcome.")
@click.option(
    "--action",
    type=ACTIONS,
    required=True,
    help="Delete it, or move it to an archive file, which `engram upkeep forget --restore` reads back.",
)
@policy_agent_option
@click.pass_obj
def set_(cli: Invocation, /, name: str, **policy: Any) -> None:
    """Set a policy: at the next run it deletes or archives the memories that meet all of its conditions.

    A policy of the same name is replaced.
    """
    with cli.brain(create=True) as brain:
        stored = brain.retention.set(name, **policy)
    print_model(cli, stored, f"Set {one_line(stored.name)}: {_conditions(stored)}.")


@command.command("list")
@click.pass_obj
def list_(cli: Invocation) -> None:
    """List the policies, in the order in which they run."""
    with cli.brain() as brain:
        found = brain.retention.policies()
    print_list(
        cli,
        found,
        ["NAME", "AGENT", "ACTION", "WHAT"],
        lambda each: [one_line(each.name), one_line(each.agent or "all"), each.action, _conditions(each)],
        "No policies.",
    )


@command.command("remove")
@click.argument("name")
@click.pass_obj
def remove(cli: Invocation, name: str) -> None:
    """Remove a policy."""
    with cli.brain() as brain:
        policy = brain.retention.remove(name)
    print_model(cli, policy, f"Removed {one_line(policy.name)}.")


@command.command("run")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive file. Default: a new file beside the database.",
)
@policy_agent_option
@click.pass_obj
def run(cli: Invocation, dry_run: bool, archive: Path | None, agent: str | None) -> None:
    """Run the policies, and print how many memories each removed.

    It can be stopped at any time; the next run continues with what is left.
    """
    with cli.brain() as brain:
        retention = brain.retention
        archives = any(policy.action == "archive" for policy in retention.policies())
        target = archive or (archive_path(cli, brain.sources.now()) if archives and not dry_run else None)
        with progress(cli, "looking") as on_progress:
            agents = None if agent is None else [brain.agent(agent).name]
            report = retention.run(target, agents=agents, dry_run=dry_run, progress=on_progress)
    if cli.json:
        print_json(report.model_dump(mode="json"))
    else:
        print_report(report)


@command.command("hold")
@click.argument("reason")
@click.option(
    "--agent", metavar="NAME", help="Everything of this agent; with other options: only these of its memories."
)
@click.option("--memory", "memories", multiple=True, metavar="ID", help="This memory; may be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Memories with this tag; may be repeated.")
@click.option("--session", "sessions", multiple=True, metavar="NAME", help="Memories of this session; may be repeated.")
@click.pass_obj
def hold(cli: Invocation, /, reason: str, **covered: Any) -> None:
    """Place a legal hold: until it is released, no policy, `forget` or `agent erase` deletes what it covers.

    The REASON is shown in the error of every attempt.
    """
    with cli.brain() as brain:
        placed = brain.retention.hold(reason, **covered)
    print_model(cli, placed, f"Placed hold {placed.id} on {_covered(placed)}.")


@command.command("holds")
@click.pass_obj
def holds(cli: Invocation) -> None:
    """List the legal holds in force, and their reasons."""
    with cli.brain() as brain:
        found = brain.retention.holds()
    print_list(
        cli,
        found,
        ["ID", "SINCE", "WHAT", "WHY"],
        lambda each: [each.id, format_time(each.at), _covered(each), one_line(each.reason)],
        "No legal holds.",
    )


@command.command("release")
@click.argument("id")
@click.pass_obj
def release(cli: Invocation, id: str) -> None:
    """Release a legal hold."""
    with cli.brain() as brain:
        ended = brain.retention.release(id)
    print_model(cli, ended, f"Released hold {ended.id} on {_covered(ended)}.")


def archive_path(cli: Invocation, now: datetime) -> Path:
    """Return the path of a new archive file beside the database. Raises `InvalidInput` if it is not in a file."""
    if cli.file is None:
        raise InvalidInput("this database is not in a file; name the archive with --archive")
    return cli.file.with_name(f"{cli.file.stem}-forgotten-{now:%Y%m%dT%H%M%S%f}Z.jsonl.gz")


def print_report(report: RetentionReport) -> None:
    """Print what each policy removed, and what was kept in spite of one."""
    for each in report.gone:
        verb = f"Would {ACTION_VERBS[each.action][0]}" if report.dry_run else ACTION_VERBS[each.action][1]
        more = ", ".join(f"{count:,} {name}" for name, count in each.removed.items() if name in REMOVED_TOO)
        also = f" (and {more})" if more else ""
        memories = plural(each.memories, "memory")
        click.echo(f"{verb} {memories} of {one_line(each.agent)} by {one_line(each.policy)}{also}.")
    if not report.gone:
        click.echo("No memory meets the conditions of a policy.")
    if report.archive is not None:
        click.echo(f"  Archived in {one_line(report.archive)}")
    print_kept(report.kept)


def print_kept(kept: Mapping[str, int]) -> None:
    """Print how many memories were kept, by reason."""
    for reason, count in kept.items():
        click.echo(f"  Kept {plural(count, 'memory')}: {reason}")


def _conditions(policy: RetentionPolicy) -> str:
    """Return the conditions of a policy in words."""
    parts = [
        " or ".join(policy.kinds) if policy.kinds else "memories",
        f"tagged {', '.join(map(one_line, policy.tags))}" if policy.tags else "",
        f"older than {_duration(policy.older_than)}" if policy.older_than is not None else "",
        f"weaker than {policy.weaker_than:g}" if policy.weaker_than is not None else "",
        f"with outcome {policy.outcome}" if policy.outcome is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _duration(time: timedelta) -> str:
    return f"{time.days}d" if time == timedelta(days=time.days) else f"{time / timedelta(hours=1):g}h"


def _covered(hold: LegalHold) -> str:
    """Return what a hold covers in words."""
    parts = [f"memory {id}" for id in hold.memories]
    parts += [f"tag {one_line(tag)}" for tag in hold.tags] + [f"session {one_line(name)}" for name in hold.sessions]
    of = "" if hold.agent is None else f" of {one_line(hold.agent)}"
    return f"{', '.join(parts) or 'everything'}{of}"
