"""`engram learning`: suggestions, predictions, outcomes, patterns and statistics from experience."""

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
from engram.cli.patterns import circumstances, format_interval, format_rate, view_of
from engram.cli.render import preview, print_fields, print_json, print_list, print_table, to_json, with_agent
from engram.errors import EngramError, NotFound
from engram.learning.failures.variable_parts import error_text

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.model import (
        ActionRecord,
        FailurePattern,
        HarmfulMemory,
        LearningStats,
        Prediction,
        Ratio,
        Suggestion,
        Trend,
    )
    from engram.model.learning import Spared
    from engram.model.shared import SharedPattern

OwnedFailure = tuple[str, "FailurePattern", "SharedPattern | None"]
MIN_FOR_CALIBRATION = 10
"""Decisions with an outcome that the calibration needs."""
_SEPARATORS = re.compile(r"[\W_]+")


@click.group("learning", cls=CommandGroup)
def command() -> None:
    """Get suggestions and predictions from experience, and report outcomes.

    If no agent is named by --agent or by the `agent` setting (ENGRAM_AGENT), the experience of all agents in the
    database is used.
    """


command.add_command(patterns.patterns)
command.add_command(apply_pattern.apply_pattern)
command.add_command(situations.situations)


@command.command("suggest")
@click.option("--context", help="The situation, such as api-auth-timeout.")
@click.option("--task", metavar="NAME", help="A task; the situation is taken from its last decision or memory.")
@click.option("--action", "actions", multiple=True, metavar="ACTION", help="Consider only these; may be repeated.")
@click.option("--explore", is_flag=True, help="Sometimes recommend a less certain action, to learn more.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print the 95% interval of each rate, the reason, and how to report the outcome.",
)
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
    **details: Any,
) -> None:
    """Suggest an action for a context, from past outcomes; with too little evidence there is no recommendation.

    A task is everything recorded with its name as --session. If nothing was, the words of the name are used as context.
    """
    from engram import engine

    if context is None and task is None:
        raise click.UsageError("Give the situation with --context or --task.")
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        situation = context if context is not None else _task_situation(readers, str(task))
        suggestion = engine.suggest(
            readers, situation, actions or None, explore=explore, around=circumstances(**details)
        )
    if cli.json:
        print_json(suggestion.model_dump(mode="json"))
        return
    if context is None:
        click.echo(f"Task {one_line(str(task))}: {preview(situation)}")
    _print_suggestion(suggestion, verbose)


@command.command("predict")
@click.option("--context", required=True, help="The situation, such as api-auth-timeout.")
@click.option("--action", required=True, help="The action.")
@circumstances_options
@reader_option
@click.pass_obj
def predict(cli: Invocation, /, context: str, action: str, agent: str | None, **details: Any) -> None:
    """Predict the probability that an action succeeds in a context."""
    from engram import engine

    with cli.brain() as brain:
        first, others = view_of(cli, brain, agent)
        prediction = engine.predict([first, *others], context, action, around=circumstances(**details))
    if cli.json:
        print_json(prediction.model_dump(mode="json"))
    else:
        _print_prediction(prediction)


@command.command("outcome")
@click.argument("id")
@click.argument("outcome")
@click.option(
    "--used", multiple=True, metavar="ID", help="recall: a memory that was used; may be repeated. Default: all."
)
@click.option("--action", help="suggestion: the action taken, if it was not the recommended one.")
@click.option("--error", default="", help="The error, if it failed.")
@click.option("--correct", is_flag=True, help="Replace the outcome reported before.")
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
    """Report the outcome of a decision, a suggestion or a recall, given by ID.

    OUTCOME is success, failure, partial or a number from 0 to 1.
    """
    with cli.brain() as brain:
        owner, new = _report_outcome(
            cli.readers(brain, agent), id, outcome, used=used or None, action=action, error=error, correct=correct
        )
        outcomes = owner.outcomes(id) if cli.json else []
    if cli.json:
        print_json({"id": id, "agent": owner.name, "new": new, "outcomes": to_json(outcomes)})
    else:
        click.echo(
            f"Learned: {one_line(id)} → {one_line(outcome)}"
            if new
            else f"This outcome of {one_line(id)} was reported before"
        )


@command.command("failures")
@click.option("--recent", type=parse_time, metavar="TIME", help="Only failures seen since this time ago (7d) or date.")
@click.option("--recurring", is_flag=True, help="Only failures that recurred.")
@reader_option
@limit_option(50)
@click.pass_obj
def failures(cli: Invocation, recent: datetime | None, recurring: bool, agent: str | None, limit: int) -> None:
    """List known failures, including those shared with a selected agent, the most recently seen first."""
    from engram.model import FailurePattern

    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        failures: list[OwnedFailure] = [
            (reader.name, each, None) for reader in readers for each in reader.learning.failures()
        ]
        failures += [
            (each.agent, each.shared.pattern, each.shared)
            for each in patterns.shared(cli, readers, agent, ("failure",))
            if each.shared is not None and isinstance(each.shared.pattern, FailurePattern)
        ]
    found = [
        (name, pattern, shared)
        for name, pattern, shared in failures
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
        click.echo("No matching failure.")
    else:
        agent_column = ["AGENT"] if len(readers) > 1 or any(shared for _, _, shared in found) else []
        rows = [
            _row((name if shared is None else patterns.source_words(shared.source)) if agent_column else None, pattern)
            for name, pattern, shared in found
        ]
        print_table(["NAME", "SEEN", "LAST", *agent_column, "RECURRING", "ERROR"], rows)


@command.command("stats")
@reader_option
@click.pass_obj
def stats(cli: Invocation, agent: str | None) -> None:
    """Show how well Engram learns, measured on recorded decisions."""
    with cli.brain() as brain:
        _require_agent(cli, brain, agent)
        first, others = view_of(cli, brain, agent)
        found = first.learning.stats([other.learning for other in others])
    if cli.json:
        print_json(found.model_dump(mode="json"))
    else:
        _print_stats(found)


@command.command("alarms")
@reader_option
@click.pass_obj
def alarms(cli: Invocation, agent: str | None) -> None:
    """List alarms: bursts of outcomes that contradict well-established rates, with their sources."""
    from dataclasses import asdict

    with cli.brain() as brain:
        found = [(reader.name, alarm) for reader in cli.readers(brain, agent) for alarm in reader.learning.alarms()]
    if cli.json:
        values = [{"agent": name, **asdict(alarm), "single_source": alarm.single_source} for name, alarm in found]
        for each in values:
            each["began"], each["ended"] = each["began"].isoformat(), each["ended"].isoformat()
        print_json(values)
    elif not found:
        click.echo("No alarms: outcomes agree with earlier ones.")
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
    """List memories whose use is followed by failures, worst first."""
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        found = [(reader.name, memory) for reader in readers for memory in reader.learning.harmful()]
    found.sort(key=lambda each: (-each[1].harm, each[1].id))

    def row(pair: tuple[str, HarmfulMemory]) -> list[str]:
        name, memory = pair
        counts = [f"{memory.harm:.0%}", f"{memory.helped}", f"{memory.hindered}"]
        return [memory.id, *counts, one_line(name), preview(memory.text)]

    headings = ["ID", "HARMFUL", "HELPED", "HINDERED", "AGENT", "TEXT"]
    print_list(cli, found, headings, row, "No memory is known to be harmful.", with_agent)


@command.command("rebuild")
@reader_option
@click.pass_obj
def rebuild(cli: Invocation, agent: str | None) -> None:
    """Rebuild all learned state from what was recorded."""
    with cli.brain() as brain:
        _require_agent(cli, brain, agent)
        rebuilt = brain.upkeep.relearn([reader.name for reader in cli.readers(brain, agent)])
    if cli.json:
        print_json({"agents": len(rebuilt), "patterns": sum(rebuilt.values())})
    else:
        patterns_found = plural(sum(rebuilt.values()), "failure pattern")
        click.echo(f"Rebuilt from the records of {plural(len(rebuilt), 'agent')}: {patterns_found}.")


def _require_agent(cli: Invocation, brain: Engram, agent: str | None) -> None:
    """Raise `NotFound` if a selected agent has stored nothing, if the store can list its agents."""
    from engram.ports import ListsAgents
    from engram.ports.completed import can

    named = cli.selected(agent)
    if named is None or not can(brain.store, ListsAgents):
        return
    if brain.agent(named).name not in brain.agents():
        raise NotFound(f"there is no agent {named} here: it has stored nothing; omit --agent for all agents")


def _task_situation(readers: Sequence[AgentHandle], task: str) -> str:
    """Return the situation of a task: its last decision's context, else its last memory, else its name."""
    for kinds in (("decision",), ()):
        found = [memory for reader in readers for memory in reader.list(limit=1, session=task, kinds=kinds)]
        if found:
            newest = max(found, key=lambda memory: (memory.happened_at, memory.id))
            return newest.context if kinds and newest.context else newest.text
    return _SEPARATORS.sub(" ", task).strip() or task


def _report_outcome(owners: Iterable[AgentHandle], id: str, outcome: str, **details: Any) -> tuple[AgentHandle, bool]:
    """Report an outcome to the agent that knows the id; return the agent, and True if new. Raises `NotFound`."""
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
    experience = any(record.attempts or record.similar for record in suggestion.actions)
    click.echo("Based on past experience:" if experience else "No experience with this context yet.")
    for record in suggestion.actions if experience else ():
        click.echo(f"  • {one_line(record.action)} ({_evidence(record, verbose)})")
    if suggestion.recommended is not None:
        click.echo(f"  Recommended: {one_line(suggestion.recommended)}")
        if verbose or _is_informative(suggestion.reason):
            click.echo(f"  Why: {one_line(suggestion.reason)}")
    elif experience:
        click.echo(f"  No recommendation: {one_line(suggestion.reason)}")
    if verbose and suggestion.situation:
        click.echo(f"  Situation: {one_line(suggestion.situation)}")
    if verbose and suggestion.id is not None:
        click.echo(f"  Report the outcome: engram learning outcome {suggestion.id} success|failure|partial")


def _evidence(record: ActionRecord, verbose: bool) -> str:
    words = format_rate(record.success_rate, record.attempts) + (
        f", {record.similar:,} similar" if record.similar else ""
    )
    return f"{words}, 95% interval {format_interval(record.interval)}" if verbose else words


def _is_informative(reason: str) -> bool:
    """Return True if a reason says more than that the action worked best, such as of a tie or a change."""
    return ";" in reason or not reason.startswith("it worked best")


def _print_prediction(prediction: Prediction) -> None:
    from engram.learning.decisions.suggestions import certainty

    click.echo(f"{one_line(prediction.action)}: {certainty(prediction.probability)} likely to succeed")
    similar = f", {prediction.similar:,} in similar contexts" if prediction.similar else ""
    click.echo(
        f"  95% interval {format_interval(prediction.interval)}; {plural(prediction.attempts, 'attempt')} here{similar}"
    )


def _print_stats(found: LearningStats) -> None:
    from engram.learning.scores import COMPARED, SHARE

    least = math.ceil(COMPARED / SHARE)
    change = f"not known yet: it takes {least} decisions with an outcome, and there are {found.with_outcome}"
    if found.effectiveness is not None:
        change = _trend(found.effectiveness, found.with_outcome)
    rate = "" if found.success_rate is None else f", success rate {found.success_rate:.0%}"
    if found.success_interval is not None:
        rate += f" (95% interval {format_interval(found.success_interval)})"
    no_effect = "not known yet: no warning of a check was heeded yet"
    print_fields(
        {
            "agents": ", ".join(found.agents),
            "decisions": f"{found.decisions:,}, {found.with_outcome:,} with an outcome{rate}",
            "learning effectiveness": change,
            "memory utilization": _ratio(
                found.utilization, "of decisions cite something from memory", "no decision was recorded"
            ),
            "pattern recognition": _ratio(
                found.recognition,
                "of recurring failures were recognised",
                "no failure with a message recurred yet",
            ),
            "cross-agent transfer": _ratio(
                found.transfer,
                "of informed decisions used knowledge of other agents",
                "no informed decision was recorded",
            ),
            "learning spared": _failures_avoided(found.spared),
            "prevention success": no_effect
            if found.prevention is None
            else _prevention_effect(found.prevention, found.prevention_interval),
            "patterns": f"{plural(found.failure_patterns, 'failure pattern')} "
            f"({found.recurring_patterns:,} recurring), {plural(found.success_patterns, 'success pattern')}, "
            f"{plural(found.checks, 'prevention check')}",
            "calibration": _calibrated(found),
        }
    )


def _ratio(ratio: Ratio, what: str, nothing: str) -> str:
    if ratio.share is None:
        return f"not known yet: {nothing}"
    interval = "" if ratio.interval is None else f", 95% interval {format_interval(ratio.interval)}"
    return f"{ratio.share:.0%} {what} ({ratio.some:,} of {ratio.all:,}{interval})"


def _trend(trend: Trend, known: int) -> str:
    """Describe the change of the success rate in points, and relative to the baseline if there is one.

    Those of the `known` decisions that are on neither side belong to a passed period with another rate.
    """
    low, high = (100 * bound for bound in trend.interval)
    relative = "" if trend.change is None else f", {trend.change:+.0%} of the baseline"
    older, newer = plural(trend.baseline_decisions, "decision"), plural(trend.recent_decisions, "decision")
    when = "older half against newer half, no clear change in between"
    if trend.changed_at is not None:
        when = f"changed on {trend.changed_at:%Y-%m-%d}"
    if passed := known - trend.baseline_decisions - trend.recent_decisions:
        when = f"before and since a passed period of {plural(passed, 'decision')} with another rate"
    return (
        f"{100 * trend.difference:+.0f} points{relative}: {trend.baseline:.0%} → {trend.recent:.0%} success "
        f"({older}, then {newer}; 95% interval {low:+.0f} to {high:+.0f} points; {when})"
    )


def _failures_avoided(found: Spared | None) -> str:
    if found is None:
        return "not known yet: no decision with an outcome used knowledge of other agents"
    if found.failures is None or found.interval is None:
        return f"not known yet: {plural(found.used, 'decision')} used it, and there are no comparable ones without it"
    low, high = found.interval
    rates = f"{found.rate_with or 0:.0%} of them failed, {found.rate_without or 0:.0%} of comparable ones without it"
    return (
        f"about {found.failures:.1f} failures (95% interval {low:.1f} to {high:.1f}) in "
        f"{plural(found.compared, 'decision')} that used knowledge of others: {rates}"
    )


def _prevention_effect(reduction: float, interval: tuple[float, float] | None) -> str:
    word = "fewer" if reduction >= 0 else "more"
    words = f"{abs(reduction):.0%} {word} failures per opportunity where checks were heeded"
    if interval is None:
        return words
    return f"{words} (95% interval of the reduction {interval[0]:+.0%} to {interval[1]:+.0%})"


def _calibrated(found: LearningStats) -> str:
    calibration, known = found.calibration, found.with_outcome
    few = known < MIN_FOR_CALIBRATION
    if few or calibration.brier is None or calibration.base_rate_brier is None or calibration.calibration_error is None:
        return f"not known yet: it takes {MIN_FOR_CALIBRATION} decisions with an outcome, and there are {known}"
    return (
        f"Brier score {calibration.brier:.3f} ({calibration.base_rate_brier:.3f} for always predicting the mean), "
        f"calibration error {calibration.calibration_error:.3f}, {plural(calibration.decisions, 'decision')}"
    )
