"""`engram eval`: measure how useful memory is over time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, parse_time, reader_option
from engram.cli.render import print_json, print_table
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.model.upkeep import Drift, EvaluationReport, Measure, Measures, Period

NAMES = {
    "retrieval_success": "recalls that helped",
    "hit_ratio": "memories that helped",
    "informed": "decisions informed",
    "success": "decisions that went well",
}


@click.group("eval", cls=CommandGroup)
def command() -> None:
    """Measure how useful memory is, and detect drift."""


@command.command("report")
@click.option("--since", type=parse_time, help="Only from this date or time ago (7d).")
@click.option("--until", type=parse_time, help="Only before this date or time ago.")
@click.option(
    "--period",
    type=click.Choice(["day", "week", "month"]),
    default="week",
    show_default=True,
    help="The period of a row.",
)
@reader_option
@click.pass_obj
def report(cli: Invocation, since: datetime | None, until: datetime | None, period: Period, agent: str | None) -> None:
    """Show how often recalls helped, how many decisions used memory, and whether these figures drift.

    It counts reported outcomes of recalls and decisions. Several agents are counted together.
    """
    with cli.brain() as brain:
        names = [reader.name for reader in cli.readers(brain, agent)]
        if agent is not None and agent not in brain.agents():
            raise NotFound(f"there is no agent {agent!a}; `engram agent list` shows who there is")
        found = brain.upkeep.evaluate(names, since=since, until=until, period=period)
    if cli.json:
        print_json(found.model_dump(mode="json"))
    elif not found.rows:
        click.echo("No outcome of a recall or a decision was reported yet.")
    else:
        _print(found)


def _print(report: EvaluationReport) -> None:
    rows = [[f"{row.start:%Y-%m-%d}", *_cells(row)] for row in report.rows]
    print_table(
        [report.period.upper(), *(name.upper() for name in NAMES.values())], [*rows, ["all", *_cells(report.total)]]
    )
    for each in report.drift:
        click.echo(_drift(each, report.period))
    if not report.drift:
        click.echo(f"Drift: not known until two {report.period}s can be compared.")


def _cells(measures: Measures) -> list[str]:
    return [_cell(getattr(measures, name)) for name in NAMES]


def _cell(measure: Measure) -> str:
    if measure.share is None or measure.interval is None:
        return "-"
    low, high = measure.interval
    return f"{measure.share:.0%} of {measure.all:,} ({low:.0%} to {high:.0%})"


def _drift(drift: Drift, period: Period) -> str:
    from engram.learning.decisions.comparisons import significance

    verdict = "DRIFT" if drift.drifted else "no drift"
    when = "" if drift.since is None else f" since {drift.since:%Y-%m-%d}"
    if drift.until is not None:
        when = f" from {drift.since:%Y-%m-%d} to {drift.until:%Y-%m-%d}, against all other {period}s"
    interval = ""
    if drift.interval is not None:
        interval = f", interval {100 * drift.interval[0]:+.0f} to {100 * drift.interval[1]:+.0f}"
    change = f"clearest difference {100 * drift.change:+.0f} points{when}{interval}"
    return f"{NAMES[drift.measure]}: {verdict} ({change}, {significance(drift.p_value)})"
