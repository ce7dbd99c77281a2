"""`engram learning`: what experience says about the next decision, and how well it is learned from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from engram.cli import apply_pattern, patterns, situations
from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import (
    CommandGroup,
    circumstances_options,
    limit_option,
    owner_option,
    parse_time,
    reader_option,
)
from engram.cli.patterns import askers, between, circumstances, rated
from engram.cli.render import preview, print_fields, print_json, print_table, to_json
from engram.errors import EngramError, NotFound
from engram.learning.failures.variable_parts import error_text
from engram.ports.completed import can

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.model import ActionRecord, FailurePattern, LearningStats, Prediction, Ratio, Suggestion, Trend
    from engram.model.learning import Spared
    from engram.model.shared import SharedPattern

Known = tuple[str, "FailurePattern", "SharedPattern | None"]
CALIBRATED = 10
"""From so many decisions with an outcome on, figures about predictions say something."""
_JOINTS = re.compile(r"[\W_]+")


@click.group("learning", cls=CommandGroup)
def command() -> None:
    """Ask what experience says, and tell how it went.

    When no agent is named, by --agent or by the `agent` setting (ENGRAM_AGENT), the experience of all agents in the
    database counts.
    """


command.add_command(patterns.patterns)
command.add_command(apply_pattern.apply_pattern)
command.add_command(situations.situations)


@command.command("suggest")
@click.option("--context", help="The situation, such as api-auth-timeout.")
@click.option("--task", metavar="NAME", help="The task, whose last decision or memory tells the situation.")
@click.option("--action", "actions", multiple=True, metavar="ACTION", help="Consider only these; may be repeated.")
@click.option("--explore", is_flag=True, help="Now and then try what is less certain, to learn more.")
@click.option("-v", "--verbose", is_flag=True, help="Print the 95% interval of each rate, and how to tell the outcome.")
@circumstances_options
@reader_option
@click.pass_obj
def suggest(
    cli: Invocation,
    /,
    context: str | None,
    task: str | None,
    actions: tuple[str, ...],
    explore: bool,
    verbose: bool,
    agent: str | None,
    **around: Any,
) -> None:
    """Suggest what to do in a context, from how it went before; too little evidence gives no recommendation.

    A task is what was recorded with its name as --session. Of one that nobody knows, the words of the name are taken.
    """
    from engram import engine

    if context is None and task is None:
        raise click.UsageError("Say what it is about with --context or --task.")
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        asked = context if context is not None else _situation(readers, str(task))
        suggestion = engine.suggest(readers, asked, actions or None, explore=explore, around=circumstances(**around))
    if cli.json:
        print_json(suggestion.model_dump(mode="json"))
        return
    if context is None:
        click.echo(f"Task {one_line(str(task))}: {preview(asked)}")
    _print_suggestion(suggestion, verbose)


@command.command("predict")
@click.option("--context", required=True, help="The situation, such as api-auth-timeout.")
@click.option("--action", required=True, help="What is to be done.")
@circumstances_options
@reader_option
@click.pass_obj
def predict(cli: Invocation, /, context: str, action: str, agent: str | None, **around: Any) -> None:
    """Predict how likely an action is to succeed in a context."""
    from engram import engine

    with cli.brain() as brain:
        first, others = askers(cli, brain, agent)
        prediction = engine.predict([first, *others], context, action, around=circumstances(**around))
    if cli.json:
        print_json(prediction.model_dump(mode="json"))
    else:
        _print_prediction(prediction)


@command.command("outcome")
@click.argument("id")
@click.argument("outcome")
@click.option("--used", multiple=True, metavar="ID", help="recall: the memories that were used. Default: all shown.")
@click.option("--action", help="suggestion: what was done, if it was not what it recommended.")
@click.option("--error", default="", help="The error, if it failed.")
@click.option("--correct", is_flag=True, help="Replace the outcome that was told before.")
@owner_option
@click.pass_obj
def outcome(
    cli: Invocation,
    id: str,
    outcome: str,
    used: tuple[str, ...],
    action: str | None,
    error: str,
    correct: bool,
    agent: str | None,
) -> None:
    """Tell how it went: of a decision, a suggestion or a recall, by its ID.

    OUTCOME is success, failure, partial or a number from 0 to 1.
    """
    with cli.brain() as brain:
        owner, new = _told(
            cli.readers(brain, agent), id, outcome, used=used or None, action=action, error=error, correct=correct
        )
        told = owner.outcomes(id) if cli.json else []
    if cli.json:
        print_json({"id": id, "agent": owner.name, "new": new, "outcomes": to_json(told)})
    else:
        click.echo(
            f"Learned: {one_line(id)} → {one_line(outcome)}" if new else f"Just that was known of {one_line(id)}"
        )


@command.command("failures")
@click.option("--recent", type=parse_time, metavar="TIME", help="Only those seen since: how long ago (7d), or a date.")
@click.option("--recurring", is_flag=True, help="Only those that came back.")
@reader_option
@limit_option(50)
@click.pass_obj
def failures(cli: Invocation, recent: datetime | None, recurring: bool, agent: str | None, limit: int) -> None:
    """List known failures, those that others share with a named agent too, the most recently seen first."""
    from engram.model import FailurePattern

    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        known: list[Known] = [(reader.name, each, None) for reader in readers for each in reader.learning.failures()]
        known += [
            (each.agent, each.shared.pattern, each.shared)
            for each in patterns.shared(cli, readers, agent, ("failure",))
            if each.shared is not None and isinstance(each.shared.pattern, FailurePattern)
        ]
    found = [
        (name, pattern, shared)
        for name, pattern, shared in known
        if pattern.recurring >= recurring and (recent is None or pattern.last_seen >= recent)
    ]
    found = sorted(found, key=lambda each: (each[1].last_seen, each[1].pattern_id), reverse=True)[:limit]
    if cli.json:
        print_json(
            [
                {"agent": name, **each.model_dump(mode="json"), **({} if shared is None else patterns.origin(shared))}
                for name, each, shared in found
            ]
        )
    elif not found:
        click.echo("No such failure.")
    else:
        whose = ["AGENT"] if len(readers) > 1 or any(shared for _, _, shared in found) else []
        rows = [
            _row((name if shared is None else patterns.whose(shared.source)) if whose else None, pattern)
            for name, pattern, shared in found
        ]
        print_table(["NAME", "SEEN", "LAST", *whose, "RECURRING", "ERROR"], rows)


@command.command("stats")
@reader_option
@click.pass_obj
def stats(cli: Invocation, agent: str | None) -> None:
    """Show how well it learns, measured on its own decisions."""
    with cli.brain() as brain:
        _require_agent(cli, brain, agent)
        first, others = askers(cli, brain, agent)
        found = first.learning.stats([other.learning for other in others])
    if cli.json:
        print_json(found.model_dump(mode="json"))
    else:
        _print_stats(found)


@command.command("alarms")
@reader_option
@click.pass_obj
def alarms(cli: Invocation, agent: str | None) -> None:
    """Show bursts of outcomes that contradict what was well established, and who is behind each."""
    from dataclasses import asdict

    with cli.brain() as brain:
        found = [(reader.name, alarm) for reader in cli.readers(brain, agent) for alarm in reader.learning.alarms()]
    if cli.json:
        told = [{"agent": name, **asdict(alarm), "single_source": alarm.single_source} for name, alarm in found]
        for each in told:
            each["began"], each["ended"] = each["began"].isoformat(), each["ended"].isoformat()
        print_json(told)
    elif not found:
        click.echo("No alarm: outcomes go on as they did.")
    for name, alarm in () if cli.json else found:
        click.echo(
            f"{one_line(alarm.action)} in {preview(alarm.context)} ({one_line(name)}): {alarm.contradicting} of "
            f"{alarm.outcomes} outcomes since {format_time(alarm.began)} contradict {alarm.rate:.0%} of "
            f"{plural(alarm.attempts, 'attempt')} before; from {one_line(', '.join(who for who, _ in alarm.sources))}"
        )


@command.command("harmful")
@reader_option
@click.pass_obj
def harmful(cli: Invocation, agent: str | None) -> None:
    """List memories whose use goes with failure, the worst first."""
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        found = [(reader.name, memory) for reader in readers for memory in reader.learning.harmful()]
    found.sort(key=lambda each: (-each[1].harm, each[1].id))
    if cli.json:
        print_json([{"agent": name, **memory.model_dump(mode="json")} for name, memory in found])
    elif not found:
        click.echo("No memory is known to do harm.")
    else:
        rows = [
            [
                memory.id,
                f"{memory.harm:.0%}",
                f"{memory.helped}",
                f"{memory.hindered}",
                one_line(name),
                preview(memory.text),
            ]
            for name, memory in found
        ]
        print_table(["ID", "HARMFUL", "HELPED", "HINDERED", "AGENT", "TEXT"], rows)


@command.command("rebuild")
@reader_option
@click.pass_obj
def rebuild(cli: Invocation, agent: str | None) -> None:
    """Learn everything again from what was recorded."""
    with cli.brain() as brain:
        _require_agent(cli, brain, agent)
        rebuilt = brain.upkeep.relearn([reader.name for reader in cli.readers(brain, agent)])
    if cli.json:
        print_json({"agents": len(rebuilt), "patterns": sum(rebuilt.values())})
    else:
        known = plural(sum(rebuilt.values()), "failure pattern")
        click.echo(f"Learned again from what {plural(len(rebuilt), 'agent')} recorded: {known}.")


def _require_agent(cli: Invocation, brain: Engram, agent: str | None) -> None:
    """Raises `NotFound` if an agent is named that never stored anything, as far as the store can tell."""
    from engram.ports import ListsAgents

    named = agent if agent is not None else cli.settings.agent or None
    if named is None or not can(brain.store, ListsAgents):
        return
    if brain.agent(named).name not in brain.agents():
        raise NotFound(f"there is no agent {named} here: it has stored nothing; leave it out to mean all agents")


def _situation(readers: Sequence[AgentHandle], task: str) -> str:
    """What a task is about: its last decision's context, else its last memory, else the words of its name."""
    for kinds in (("decision",), ()):
        found = [memory for reader in readers for memory in reader.list(limit=1, session=task, kinds=kinds)]
        if found:
            newest = max(found, key=lambda memory: (memory.happened_at, memory.id))
            return newest.context if kinds and newest.context else newest.text
    return _JOINTS.sub(" ", task).strip() or task


def _told(owners: Iterable[AgentHandle], id: str, outcome: str, **details: Any) -> tuple[AgentHandle, bool]:
    """Tell the outcome to whoever knows the id; who it was, and whether it was new. Raises `NotFound`."""
    missing: EngramError = NotFound(f"there is no decision, suggestion or recall {id}")
    for owner in owners:
        try:
            return owner, owner.outcome(id, outcome, **details)
        except NotFound as error:
            missing = error
    raise missing


def _row(agent: str | None, pattern: FailurePattern) -> list[str]:
    return [
        one_line(pattern.name),
        f"{pattern.occurrence_count:,}",
        format_time(pattern.last_seen),
        *([] if agent is None else [one_line(agent)]),
        "yes" if pattern.recurring else "no",
        preview(error_text(pattern)),
    ]


def _print_suggestion(suggestion: Suggestion, verbose: bool) -> None:
    known = any(record.attempts or record.similar for record in suggestion.actions)
    click.echo("Based on past experience:" if known else "No experience with this context yet.")
    for record in suggestion.actions if known else ():
        click.echo(f"  • {one_line(record.action)} ({_evidence(record, verbose)})")
    if suggestion.recommended is not None:
        click.echo(f"  Recommended: {one_line(suggestion.recommended)}")
        if verbose or _says_more(suggestion.reason):
            click.echo(f"  Why: {one_line(suggestion.reason)}")
    elif known:
        click.echo(f"  No recommendation: {one_line(suggestion.reason)}")
    if verbose and suggestion.situation:
        click.echo(f"  Situation: {one_line(suggestion.situation)}")
    if verbose and suggestion.id is not None:
        click.echo(f"  How it goes: engram learning outcome {suggestion.id} success|failure|partial")


def _evidence(record: ActionRecord, verbose: bool) -> str:
    said = rated(record.success_rate, record.attempts) + (f", {record.similar:,} similar" if record.similar else "")
    return f"{said}, 95% interval {between(record.interval)}" if verbose else said


def _says_more(reason: str) -> bool:
    """Return whether a reason tells more than that the action worked best: of an equal, or of a change."""
    return ";" in reason or not reason.startswith("it worked best")


def _print_prediction(prediction: Prediction) -> None:
    from engram.learning.decisions.comparisons import certainty

    click.echo(f"{one_line(prediction.action)}: {certainty(prediction.probability)} likely to succeed")
    similar = f", {prediction.similar:,} in similar contexts" if prediction.similar else ""
    click.echo(f"  95% interval {between(prediction.interval)}; {plural(prediction.attempts, 'attempt')} here{similar}")


def _print_stats(found: LearningStats) -> None:
    from engram.learning.scores import COMPARED, SHARE

    least = math.ceil(COMPARED / SHARE)
    change = f"not known yet: it takes {least} decisions with an outcome, and there are {found.with_outcome}"
    if found.effectiveness is not None:
        change = _trend(found.effectiveness, found.with_outcome)
    rate = "" if found.success_rate is None else f", success rate {found.success_rate:.0%}"
    if found.success_interval is not None:
        rate += f" (95% interval {between(found.success_interval)})"
    fewer = "not known yet: no check that spoke up was heeded yet"
    print_fields(
        {
            "agents": ", ".join(found.agents),
            "decisions": f"{found.decisions:,}, {found.with_outcome:,} with an outcome{rate}",
            "learning effectiveness": change,
            "memory utilization": _ratio(
                found.utilization, "of decisions cite something that memory had shown", "no decision was recorded"
            ),
            "pattern recognition": _ratio(
                found.recognition,
                "of failures that came back were recognised",
                "no failure with a message came back yet",
            ),
            "cross-agent transfer": _ratio(
                found.transfer,
                "of informed decisions owe something to other agents",
                "no informed decision was recorded",
            ),
            "learning spared": _spared(found.spared),
            "prevention success": fewer
            if found.prevention is None
            else _fewer(found.prevention, found.prevention_interval),
            "patterns": f"{plural(found.failure_patterns, 'failure pattern')} "
            f"({found.recurring_patterns:,} recurring), {plural(found.success_patterns, 'success pattern')}, "
            f"{plural(found.checks, 'prevention check')}",
            "calibration": _calibrated(found),
        }
    )


def _ratio(ratio: Ratio, what: str, nothing: str) -> str:
    if ratio.share is None:
        return f"not known yet: {nothing}"
    interval = "" if ratio.interval is None else f", 95% interval {between(ratio.interval)}"
    return f"{ratio.share:.0%} {what} ({ratio.some:,} of {ratio.all:,}{interval})"


def _trend(trend: Trend, known: int) -> str:
    """Word the change of the success rate in points; as a share of the baseline only where there is one.

    Of the `known` decisions, those on neither side are of a stretch that has passed.
    """
    low, high = (100 * bound for bound in trend.interval)
    relative = "" if trend.change is None else f", {trend.change:+.0%} of the baseline"
    older, newer = plural(trend.baseline_decisions, "decision"), plural(trend.recent_decisions, "decision")
    when = "older half against newer half, no clear change in between"
    if trend.changed_at is not None:
        when = f"changed on {trend.changed_at:%Y-%m-%d}"
    if passed := known - trend.baseline_decisions - trend.recent_decisions:
        when = f"before and since {plural(passed, 'decision')} in between that went otherwise, which has passed"
    return (
        f"{100 * trend.difference:+.0f} points{relative}: {trend.baseline:.0%} → {trend.recent:.0%} success "
        f"({older}, then {newer}; 95% interval {low:+.0f} to {high:+.0f} points; {when})"
    )


def _spared(found: Spared | None) -> str:
    if found is None:
        return "not known yet: no decision with an outcome used what other agents had learned"
    if found.failures is None or found.interval is None:
        return f"not known yet: {plural(found.used, 'decision')} used it, and none without it can be compared"
    low, high = found.interval
    rates = f"{found.rate_with or 0:.0%} of them failed, {found.rate_without or 0:.0%} of comparable ones without it"
    return (
        f"about {found.failures:.1f} failures (95% interval {low:.1f} to {high:.1f}) in "
        f"{plural(found.compared, 'decision')} that used what others had learned: {rates}"
    )


def _fewer(reduction: float, interval: tuple[float, float] | None) -> str:
    word = "fewer" if reduction >= 0 else "more"
    said = f"{abs(reduction):.0%} {word} failures per opportunity where checks were heeded"
    if interval is None:
        return said
    return f"{said} (95% interval of the reduction {interval[0]:+.0%} to {interval[1]:+.0%})"


def _calibrated(found: LearningStats) -> str:
    told, known = found.calibration, found.with_outcome
    few = known < CALIBRATED
    if few or told.brier is None or told.base_rate_brier is None or told.calibration_error is None:
        return f"not known yet: it takes {CALIBRATED} decisions with an outcome, and there are {known}"
    return (
        f"Brier score {told.brier:.3f} ({told.base_rate_brier:.3f} for always predicting the mean), "
        f"calibration error {told.calibration_error:.3f}, {plural(told.decisions, 'decision')}"
    )
