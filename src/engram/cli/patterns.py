"""What was learned, as several commands show and choose it: `learning patterns` and `memory patterns` are the same."""

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
SHOWN = 5
_RATE = re.compile(r"(>=|<=|>|<|=)?\s*(\d{1,3}(?:\.\d{1,9})?)\s*(%?)", re.ASCII)
_COMPARED: dict[str, Callable[[float, float], bool]] = {"": ge, ">=": ge, "<=": le, ">": gt, "<": lt}


@dataclass(frozen=True, slots=True)
class Bound:
    """What a success rate must be, such as above 80%."""

    sign: str
    share: float

    def holds(self, rate: float) -> bool:
        """Whether a rate is so; equal means equal in whole percent, as rates are printed."""
        if self.sign == "=":
            return f"{rate:.0%}" == f"{self.share:.0%}"
        return _COMPARED[self.sign](rate, self.share)


@dataclass(frozen=True, slots=True)
class Found:
    """A pattern, whose it is, and what it is chosen by."""

    type: str
    agent: str
    pattern: BaseModel
    title: str
    facts: tuple[str, ...]
    places: str
    rates: tuple[float, ...]
    last_seen: datetime
    recurring: bool = False
    shared: SharedPattern | None = None
    """Set if it is a pattern of somebody else."""

    def plain(self) -> dict[str, Any]:
        """As a JSON value."""
        told = {"type": self.type, "agent": self.agent, **self.pattern.model_dump(mode="json")}
        return told if self.shared is None else told | origin(self.shared)


def bound(value: str) -> Bound:
    """A bound such as >80%, <=0.5 or 80%, which means at least 80%; numbers above 1 are percent."""
    found = _RATE.fullmatch(value.strip())
    number = float(found[2]) if found else -1.0
    share = number / 100 if found and (found[3] or number > 1) else number
    if found is None or not 0 <= share <= 1:
        raise click.BadParameter(f'{value!r} is not a rate such as ">80%", "<=0.5" or "80%".')
    return Bound(found[1] or "", share)


def circumstances(environment: str, tool: str, task_type: str, tags: tuple[str, ...]) -> Circumstances:
    """The same, as the engine takes it."""
    from engram.learning.events import Circumstances

    return Circumstances(environment, tool, task_type, tags)


def askers(cli: Invocation, brain: Engram, agent: str | None) -> tuple[AgentHandle, list[AgentHandle]]:
    """Whose view is taken, and the others who are asked besides; who has stored nothing yet knows nothing."""
    first, *others = cli.readers(brain, agent) or [cli.writer(brain, agent)]
    return first, others


def learned(readers: Iterable[AgentHandle], types: Iterable[str] = TYPES) -> list[Found]:
    """Everything these agents have learned, agent by agent: failures, successes, decision templates."""
    found = list[Found]()
    for reader in readers:
        if "failure" in types:
            found += [_failure(reader.name, pattern) for pattern in reader.learning.failures()]
        if "success" in types or "decision" in types:
            synthesis = reader.learning.synthesis()
            found += [_success(reader.name, pattern) for pattern in synthesis.patterns if "success" in types]
            found += [_decision(reader.name, template) for template in synthesis.templates if "decision" in types]
    return found


def shared(cli: Invocation, readers: Iterable[AgentHandle], agent: str | None, types: Iterable[str]) -> list[Found]:
    """What others shared with a named agent, and what was imported; who names none sees everybody's own already."""
    named, found = agent is not None or bool(cli.settings.agent), list[Found]()
    for reader in readers:
        for each in reader.shared_patterns.list(types, imports=not named):
            made: Any = {"failure": _failure, "success": _success, "decision": _decision}[each.type]
            one: Found = made(reader.name, each.pattern)
            facts = (*one.facts, *_of_source(each))
            found.append(replace(one, facts=facts, shared=each))
    return found


def origin(shared: SharedPattern) -> dict[str, Any]:
    """The source of a pattern of others and the receiver's own record with it, as JSON values."""
    return shared.model_dump(mode="json", include={"source", "own"})


def whose(source: PatternSource) -> str:
    """The source of something shared or imported, in words."""
    way = "shared by" if source.kind == "grant" else "imported from"
    return f"{way} {one_line(source.name)}"


def _of_source(shared: SharedPattern) -> Iterator[str]:
    source, may = shared.source, ", may be shared on" if shared.source.reshare else ""
    yield f"Source: {whose(source)} ({source.kind} {source.id}, trust {source.trust:.0%}{may})"
    if shared.own is not None:
        own = shared.own
        tried = plural(own.attempts, "own attempt") if own.attempts else "not tried here yet"
        yield f"Expected here: {own.success_rate:.0%} ({tried}, 95% interval {between(own.interval)})"


@click.command("patterns", cls=Command)
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES), help="Only of this type; may be repeated.")
@click.option(
    "--success-rate",
    type=bound,
    metavar="RATE",
    help='Only with such a rate: ">80%", ">=0.8", "<50%", "=100%"; a plain number means at least.',
)
@click.option("--recurring", is_flag=True, help="Only failures that came back.")
@click.option(
    "--recent", type=parse_time, metavar="TIME", help="Only what was seen since: how long ago (7d), or a date."
)
@click.option("--context", metavar="WORDS", help="Only those in whose name or context all of these words occur.")
@reader_option
@click.pass_obj
def patterns(
    cli: Invocation,
    types: tuple[str, ...],
    success_rate: Bound | None,
    recurring: bool,
    recent: datetime | None,
    context: str | None,
    agent: str | None,
) -> None:
    """Show what was learned: failures that come back, approaches that work, and what to decide when.

    The success rate of a failure is that of its best solution, of a decision that of its best branch.
    """
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        found = learned(readers, types or TYPES) + shared(cli, readers, agent, types or TYPES)
    found = [each for each in found if _wanted(each, success_rate, recent, context) and each.recurring >= recurring]
    if cli.json:
        print_json([each.plain() for each in found])
        return
    for each in found:
        click.echo(each.title + (f" ({one_line(each.agent)})" if len(readers) > 1 else ""))
        for fact in each.facts:
            click.echo(f"  • {fact}")
    if not found:
        click.echo("No such pattern yet.")


def _wanted(found: Found, rate: Bound | None, since: datetime | None, words: str | None) -> bool:
    return (
        (rate is None or any(rate.holds(each) for each in found.rates))
        and (since is None or found.last_seen >= since)
        and (words is None or all(word in found.places for word in words.casefold().split()))
    )


def _failure(agent: str, pattern: FailurePattern) -> Found:
    return Found(
        type="failure",
        agent=agent,
        pattern=pattern,
        title=f'Identified pattern: "{one_line(pattern.name)}"',
        facts=tuple(_of_failure(pattern)),
        places=" ".join((pattern.name, *pattern.actions, *pattern.contexts, *pattern.environments)).casefold(),
        rates=tuple(solution.success_rate for solution in pattern.known_solutions[:1]),
        last_seen=pattern.last_seen,
        recurring=pattern.recurring,
    )


def _of_failure(pattern: FailurePattern) -> Iterator[str]:
    places = [*map(_environment, pattern.environments), *pattern.contexts]
    yield f"Error: {preview(error_text(pattern))}"
    if places:
        yield f"Occurs in: {one_line(', '.join(places[:SHOWN]))}"
    yield f"Seen: {plural(pattern.occurrence_count, 'time')}, last {format_time(pattern.last_seen)}"
    for solution in pattern.known_solutions[:SHOWN]:
        what = "Solution" if solution.helped > 0 else "Did not help"
        yield f"{what}: {preview(solution.text)} ({rated(solution.success_rate, solution.tried)})"
    for check in pattern.prevention_checks:
        yield f"Prevention check: {preview(check.verify)} ({one_line(check.name)}, {check.status})"
        yield f"Success rate after applying prevention: {prevented(check)}"
    if not pattern.prevention_checks:
        yield "Prevention check: none yet"


def _environment(name: str) -> str:
    return name if name.casefold().endswith("environment") else f"{name} environment"


def _success(agent: str, pattern: SuccessPattern) -> Found:
    return Found(
        type="success",
        agent=agent,
        pattern=pattern,
        title=f'Success pattern: "{one_line(pattern.name)}"',
        facts=tuple(_of_success(pattern)),
        places=f"{pattern.name} {pattern.title} {pattern.context_signature}".casefold(),
        rates=(pattern.success_rate,),
        last_seen=pattern.last_seen,
    )


def _of_success(pattern: SuccessPattern) -> Iterator[str]:
    yield f"Works in: {one_line(pattern.title or pattern.context_signature)}"
    attempts, interval = plural(pattern.attempts, "attempt"), between(pattern.interval)
    yield f"Success rate: {pattern.success_rate:.0%} ({attempts}, 95% interval {interval})"
    if pattern.contrast.other_rate is not None:
        yield f"Other approaches: {rated(pattern.contrast.other_rate, pattern.contrast.other_attempts)}"
    if pattern.key_factors:
        yield f"Key factors: {factors(pattern.key_factors)}"
    steps = one_line(" → ".join(pattern.replication_steps))
    agreed = f" ({pattern.step_runs:,} good sessions agree)" if pattern.step_runs else " (no two sessions tell more)"
    yield f"Steps: {steps}{agreed}"
    yield f"Last seen: {format_time(pattern.last_seen)}"


def _decision(agent: str, template: DecisionTemplate) -> Found:
    branches = template.decision_tree
    return Found(
        type="decision",
        agent=agent,
        pattern=template,
        title=f'Decision template: "{one_line(template.title or template.context_signature)}"',
        facts=tuple(map(_branch, branches)),
        places=" ".join(
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
    return one_line(f"{case}{branch.action} ({rated(branch.success_rate, branch.attempts)})")


def rated(rate: float, attempts: int) -> str:
    """A success rate and what it rests on."""
    return f"{rate:.0%} success rate, {plural(attempts, 'attempt')}"


def between(interval: tuple[float, float]) -> str:
    """An interval of rates in percent."""
    return f"{interval[0] * 100:.0f}–{interval[1] * 100:.0f}%"


def factors(found: Sequence[KeyFactor]) -> str:
    """What went with success: by how many points, on what evidence, and how far chance explains it."""
    return one_line("; ".join(map(_factor, found[:SHOWN])))


def _factor(factor: KeyFactor) -> str:
    from engram.learning.decisions.comparisons import significance

    low, high = (100 * bound for bound in factor.interval)
    p = factor.p_value if factor.corrected_p is None else factor.corrected_p
    return (
        f"{factor.feature} ({factor.effect * 100:+.0f} points, 95% interval {low:+.0f} to {high:+.0f}; "
        f"{factor.good_with:g} of {factor.support:,} went well with it, {factor.good_without:g} of {factor.without:,} "
        f"without; {significance(p)}, corrected)"
    )


def prevented(check: PreventionCheck) -> str:
    """The success rate where a check was heeded, as far as that is known."""
    heeded = check.effect.heeded if check.effect else None
    if heeded is None or not heeded.opportunities:
        return "not known yet"
    return f"{1 - heeded.rate:.0%} ({plural(heeded.opportunities, 'opportunity')})"
