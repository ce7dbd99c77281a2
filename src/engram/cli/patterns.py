"""`engram learning patterns`, `engram memory patterns`: list learned patterns; wording that other commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import Command, parse_time, reader_option
from engram.cli.render import preview, print_json
from engram.clock import EPOCH
from engram.learning.failures.variable_parts import error_text

if TYPE_CHECKING:
    from pydantic import BaseModel

    from engram.engine import AgentHandle, Engram
    from engram.learning.events import Circumstances
    from engram.model import FailurePattern, PreventionCheck
    from engram.model.shared import SharedPattern
    from engram.model.source import PatternSource
    from engram.model.success import DecisionBranch, DecisionTemplate, KeyFactor, SuccessPattern

TYPES = ("failure", "success", "decision")
MAX_SHOWN = 5
"""Contexts, solutions and key factors of a pattern that are printed."""
_RATE = re.compile(r"(>=|<=|>|<|=)?\s*(\d{1,3}(?:\.\d{1,9})?)\s*(%?)", re.ASCII)
_COMPARED: dict[str, Callable[[float, float], bool]] = {"": ge, ">=": ge, "<=": le, ">": gt, "<": lt}


@dataclass(frozen=True, slots=True)
class RateFilter:
    """A condition on a success rate, such as above 80%."""

    sign: str
    share: float

    def matches(self, rate: float) -> bool:
        """Return True if a rate meets the condition; `=` compares whole percents, as they are printed."""
        if self.sign == "=":
            return f"{rate:.0%}" == f"{self.share:.0%}"
        return _COMPARED[self.sign](rate, self.share)


@dataclass(frozen=True, slots=True)
class ListedPattern:
    """A pattern as it is printed, and the values that it is filtered by."""

    type: str
    agent: str
    pattern: BaseModel
    title: str
    facts: tuple[str, ...]
    searched: str
    """The text that --context is searched in."""
    rates: tuple[float, ...]
    last_seen: datetime
    recurring: bool = False
    shared: SharedPattern | None = None
    """Set if the pattern belongs to another agent or an imported source."""

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value."""
        value = {"type": self.type, "agent": self.agent, **self.pattern.model_dump(mode="json")}
        return value if self.shared is None else value | origin(self.shared)


def parse_rate_filter(value: str) -> RateFilter:
    """Parse a condition such as >80%, <=0.5 or 80% (at least 80%); numbers above 1 are percents."""
    found = _RATE.fullmatch(value.strip())
    number = float(found[2]) if found else -1.0
    share = number / 100 if found and (found[3] or number > 1) else number
    if found is None or not 0 <= share <= 1:
        raise click.BadParameter(f'{value!r} is not a rate such as ">80%", "<=0.5" or "80%".')
    return RateFilter(found[1] or "", share)


def circumstances(environment: str, tool: str, task_type: str, tags: tuple[str, ...]) -> Circumstances:
    """Convert the values of `circumstances_options`."""
    from engram.learning.events import Circumstances

    return Circumstances(environment, tool, task_type, tags)


def view_of(cli: Invocation, brain: Engram, agent: str | None) -> tuple[AgentHandle, list[AgentHandle]]:
    """Return the agent whose view is taken, and the other agents that are included."""
    first, *others = cli.readers(brain, agent) or [cli.writer(brain, agent)]
    return first, others


def learned(readers: Iterable[AgentHandle], types: Iterable[str] = TYPES) -> list[ListedPattern]:
    """Return all patterns of some agents, agent by agent: failures, successes, decision templates."""
    found = list[ListedPattern]()
    for reader in readers:
        if "failure" in types:
            found += [_failure(reader.name, pattern) for pattern in reader.learning.failures()]
        if "success" in types or "decision" in types:
            synthesis = reader.learning.synthesis()
            found += [_success(reader.name, pattern) for pattern in synthesis.patterns if "success" in types]
            found += [_decision(reader.name, template) for template in synthesis.templates if "decision" in types]
    return found


def shared(
    cli: Invocation, readers: Iterable[AgentHandle], agent: str | None, types: Iterable[str]
) -> list[ListedPattern]:
    """Return the patterns shared with a selected agent; if none is selected, only imported ones: the rest is listed."""
    selected, found = cli.selected(agent) is not None, list[ListedPattern]()
    for reader in readers:
        for each in reader.shared_patterns.list(types, imports=not selected):
            convert: Any = {"failure": _failure, "success": _success, "decision": _decision}[each.type]
            listed: ListedPattern = convert(reader.name, each.pattern)
            found.append(replace(listed, facts=(*listed.facts, *_source_facts(each)), shared=each))
    return found


def origin(shared: SharedPattern) -> dict[str, Any]:
    """Return the source of a shared pattern and the receiver's own outcomes with it, as JSON values."""
    return shared.model_dump(mode="json", include={"source", "own"})


def source_words(source: PatternSource) -> str:
    """Return the source of a shared or imported pattern in words."""
    way = "shared by" if source.kind == "grant" else "imported from"
    return f"{way} {one_line(source.name)}"


def _source_facts(shared: SharedPattern) -> Iterator[str]:
    source, may = shared.source, ", may be reshared" if shared.source.reshare else ""
    yield f"Source: {source_words(source)} ({source.kind} {source.id}, trust {source.trust:.0%}{may})"
    if shared.own is not None:
        own = shared.own
        tried = plural(own.attempts, "own attempt") if own.attempts else "not tried here yet"
        yield f"Expected here: {own.success_rate:.0%} ({tried}, 95% interval {format_interval(own.interval)})"


@click.command("patterns", cls=Command)
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES), help="Only of this type; may be repeated.")
@click.option(
    "--success-rate",
    type=parse_rate_filter,
    metavar="RATE",
    help='Only with this success rate: ">80%", ">=0.8", "<50%", "=100%"; a number alone means at least.',
)
@click.option("--recurring", is_flag=True, help="Only failures that recurred.")
@click.option("--recent", type=parse_time, metavar="TIME", help="Only patterns seen since this time ago (7d) or date.")
@click.option("--context", metavar="WORDS", help="Only patterns whose name or context contains all of these words.")
@reader_option
@click.pass_obj
def patterns(
    cli: Invocation,
    types: tuple[str, ...],
    success_rate: RateFilter | None,
    recurring: bool,
    recent: datetime | None,
    context: str | None,
    agent: str | None,
) -> None:
    """List learned patterns: recurring failures, successful approaches, and decision templates.

    The success rate of a failure is that of its best solution; of a decision template, that of its best branch.
    """
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        found = learned(readers, types or TYPES) + shared(cli, readers, agent, types or TYPES)
    found = [each for each in found if _passes(each, success_rate, recent, context) and each.recurring >= recurring]
    if cli.json:
        print_json([each.to_json() for each in found])
        return
    for each in found:
        click.echo(each.title + (f" ({one_line(each.agent)})" if len(readers) > 1 else ""))
        for fact in each.facts:
            click.echo(f"  • {fact}")
    if not found:
        click.echo("No such pattern yet.")


def _passes(found: ListedPattern, rate: RateFilter | None, since: datetime | None, words: str | None) -> bool:
    return (
        (rate is None or any(rate.matches(each) for each in found.rates))
        and (since is None or found.last_seen >= since)
        and (words is None or all(word in found.searched for word in words.casefold().split()))
    )


def _failure(agent: str, pattern: FailurePattern) -> ListedPattern:
    return ListedPattern(
        type="failure",
        agent=agent,
        pattern=pattern,
        title=f'Identified pattern: "{one_line(pattern.name)}"',
        facts=tuple(_failure_facts(pattern)),
        searched=" ".join((pattern.name, *pattern.actions, *pattern.contexts, *pattern.environments)).casefold(),
        rates=tuple(solution.success_rate for solution in pattern.known_solutions[:1]),
        last_seen=pattern.last_seen,
        recurring=pattern.recurring,
    )


def _failure_facts(pattern: FailurePattern) -> Iterator[str]:
    occurs_in = [*map(_environment, pattern.environments), *pattern.contexts]
    yield f"Error: {preview(error_text(pattern))}"
    if occurs_in:
        yield f"Occurs in: {one_line(', '.join(occurs_in[:MAX_SHOWN]))}"
    yield f"Seen: {plural(pattern.occurrence_count, 'time')}, last {format_time(pattern.last_seen)}"
    for solution in pattern.known_solutions[:MAX_SHOWN]:
        what = "Solution" if solution.helped > 0 else "Did not help"
        yield f"{what}: {preview(solution.text)} ({format_rate(solution.success_rate, solution.tried)})"
    for check in pattern.prevention_checks:
        yield f"Prevention check: {preview(check.verify)} ({one_line(check.name)}, {check.status})"
        yield f"Success rate after applying prevention: {prevention_rate(check)}"
    if not pattern.prevention_checks:
        yield "Prevention check: none yet"


def _environment(name: str) -> str:
    return name if name.casefold().endswith("environment") else f"{name} environment"


def _success(agent: str, pattern: SuccessPattern) -> ListedPattern:
    return ListedPattern(
        type="success",
        agent=agent,
        pattern=pattern,
        title=f'Success pattern: "{one_line(pattern.name)}"',
        facts=tuple(_success_facts(pattern)),
        searched=f"{pattern.name} {pattern.title} {pattern.context_signature}".casefold(),
        rates=(pattern.success_rate,),
        last_seen=pattern.last_seen,
    )


def _success_facts(pattern: SuccessPattern) -> Iterator[str]:
    yield f"Works in: {one_line(pattern.title or pattern.context_signature)}"
    attempts, interval = plural(pattern.attempts, "attempt"), format_interval(pattern.interval)
    yield f"Success rate: {pattern.success_rate:.0%} ({attempts}, 95% interval {interval})"
    if pattern.contrast.other_rate is not None:
        yield f"Other approaches: {format_rate(pattern.contrast.other_rate, pattern.contrast.other_attempts)}"
    if pattern.key_factors:
        yield f"Key factors: {format_factors(pattern.key_factors)}"
    steps = one_line(" → ".join(pattern.replication_steps))
    agreed = (
        f" ({pattern.step_runs:,} good sessions agree)" if pattern.step_runs else " (no two sessions agree on more)"
    )
    yield f"Steps: {steps}{agreed}"
    yield f"Last seen: {format_time(pattern.last_seen)}"


def _decision(agent: str, template: DecisionTemplate) -> ListedPattern:
    branches = template.decision_tree
    return ListedPattern(
        type="decision",
        agent=agent,
        pattern=template,
        title=f'Decision template: "{one_line(template.title or template.context_signature)}"',
        facts=tuple(map(_branch, branches)),
        searched=" ".join(
            (template.title, template.context_signature, *(branch.action for branch in branches))
        ).casefold(),
        rates=(max(branch.success_rate for branch in branches),),
        last_seen=max((past.at for past in template.success_history), default=EPOCH),
    )


def _branch(branch: DecisionBranch) -> str:
    conditions = [("" if each.present else "not ") + each.feature for each in branch.conditions]
    case = f"If {' and '.join(conditions)}: " if conditions else "Do: "
    if branch.recommended is None:
        return one_line(f"{case}no recommendation, {branch.reason}")
    return one_line(f"{case}{branch.action} ({format_rate(branch.success_rate, branch.attempts)})")


def format_rate(rate: float, attempts: int) -> str:
    """Return a success rate with its number of attempts, in words."""
    return f"{rate:.0%} success rate, {plural(attempts, 'attempt')}"


def format_interval(interval: tuple[float, float]) -> str:
    """Format an interval of rates in percent."""
    return f"{interval[0] * 100:.0f}–{interval[1] * 100:.0f}%"


def format_factors(found: Sequence[KeyFactor]) -> str:
    """Describe key factors of success: effect in points, evidence, and significance."""
    return one_line("; ".join(map(_factor, found[:MAX_SHOWN])))


def _factor(factor: KeyFactor) -> str:
    from engram.learning.decisions.comparisons import significance

    low, high = (100 * bound for bound in factor.interval)
    p = factor.p_value if factor.corrected_p is None else factor.corrected_p
    return (
        f"{factor.feature} ({factor.effect * 100:+.0f} points, 95% interval {low:+.0f} to {high:+.0f}; "
        f"{factor.good_with:g} of {factor.support:,} went well with it, {factor.good_without:g} of {factor.without:,} "
        f"without; {significance(p)}, corrected)"
    )


def prevention_rate(check: PreventionCheck) -> str:
    """Return the success rate where a check was heeded, in words."""
    heeded = check.effect.heeded if check.effect else None
    if heeded is None or not heeded.opportunities:
        return "not known yet"
    return f"{1 - heeded.rate:.0%} ({plural(heeded.opportunities, 'opportunity')})"
