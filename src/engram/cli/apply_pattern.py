"""`engram learning apply-pattern`: show how to repeat what worked, and record that it is being done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import Command, agent_option
from engram.cli.patterns import format_factors, format_rate
from engram.cli.render import print_json
from engram.errors import NotAllowed, NotFound

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.model import FailurePattern, Memory, SuccessPattern
    from engram.model.shared import SharedPattern

CONFLICT = 5
MAX_SUCCESSES = 1000
"""The newest recorded successes that are searched."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a pattern, and the evidence for it."""

    owner: str
    pattern_id: str
    name: str
    context: str
    action: str
    steps: tuple[str, ...]
    evidence: str
    key_factors: str = ""
    success_rate: float | None = None
    lower_bound: float = 0.0
    """The lower bound of its success rate; of several plans the one with the highest is chosen."""


@click.command("apply-pattern", cls=Command)
@click.argument("name")
@click.option(
    "--task", required=True, metavar="NAME", help="The task it is applied in; stored as the session of the decision."
)
@click.option(
    "--from",
    "owner",
    metavar="NAME",
    help="The agent that shares the pattern. Default: the agent's own patterns, and all shared ones.",
)
@agent_option
@click.pass_context
def apply_pattern(ctx: click.Context, name: str, task: str, owner: str | None, agent: str | None) -> None:
    """Show how to repeat what worked, and record that it is being done.

    NAME is the name or id of a success pattern, of a failure (its best solution is used), or of a recorded success; any
    words that match only one pattern are enough. The decision is recorded without an outcome; report it later with
    `engram learning outcome`. To use a pattern of another agent, a grant with the right `learn` is needed, and for a
    recorded success the right `read`; the use is logged. Without --agent, the agent is `default`; if it has no such
    pattern, the agent that learned the pattern is used.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        if cli.selected(agent) is not None or owner is not None:
            writer = cli.writer(brain, agent)
            plan = _find_plan(writer, name, owner)
        else:
            writer, plan = _default_plan(cli, brain, name)
        writer.learning.show_patterns([plan.pattern_id], lent=plan.owner != writer.name)
        receipt = writer.record_decision(
            context=plan.context,
            action=plan.action,
            session=task,
            informed_by=[plan.pattern_id],
            from_others=plan.owner != writer.name,
        )
    if not receipt.ok:
        cli.error(receipt.code or "failed", f"not recorded: {receipt.reason}")
        ctx.exit(CONFLICT if receipt.code == "conflict" else 1)
    if cli.json:
        shown = {field: value for field, value in asdict(plan).items() if field not in {"owner", "lower_bound"}}
        print_json({"decision": receipt.id, "task": task, "agent": writer.name, "from": plan.owner, **shown})
        return
    click.echo(f'Applying pattern "{one_line(plan.name)}" of {one_line(plan.owner)} ({plan.evidence}):')
    click.echo(f"  Context: {one_line(plan.context)}")
    if plan.key_factors:
        click.echo(f"  Key factors: {one_line(plan.key_factors)}")
    for number, step in enumerate(plan.steps, 1):
        click.echo(f"  {number}. {one_line(step)}")
    click.echo(f"  Recorded decision {receipt.id} in task {one_line(task)}")
    click.echo(f"  Report the outcome: engram learning outcome {receipt.id} success|failure|partial")


def _default_plan(cli: Invocation, brain: Engram, name: str) -> tuple[AgentHandle, Plan]:
    """Return the default agent and its plan; if it has none, the agent that learned such a pattern, and its plan.

    Without --agent, the user acts as the owner of the database: no knowledge passes from one agent to another.
    """
    writer = cli.writer(brain, None)
    try:
        return writer, _find_plan(writer, name, None)
    except NotFound:
        agents = cli.readers(brain, None)
        resolved = next((found for agent in agents if (found := _resolve_name(agent, name)) != name), name)
        plan = _best_plan(agents, resolved)
    return brain.agent(plan.owner), plan


def _find_plan(writer: AgentHandle, name: str, owner: str | None) -> Plan:
    """Return the best plan among the agent's own and those shared with it. Raises `NotAllowed` and `NotFound`.

    `NotAllowed` does not reveal if the other agent has such a pattern.
    """
    if owner not in {None, writer.name}:
        readable = {source.name for source in writer.grants.sources()}
        imported = [name for name in sorted(readable) if name.partition("@")[0] == owner]
        if owner not in readable and len(imported) == 1:
            (owner,) = imported
        if owner not in readable:
            raise NotAllowed(
                f"{owner} shares nothing with {writer.name}; request it: engram grant request "
                f"--agent {writer.name} --from {owner} --pattern {name} --purpose …"
            )
    try:
        return _exact_plan(writer, name, owner)
    except NotFound:
        resolved = _resolve_name(writer, name) if owner in {None, writer.name} else name
        if resolved != name:
            return _exact_plan(writer, resolved, owner)
        plans = _shared_plans(writer, name, owner, words=True)
        if not plans:
            raise
        return max(plans, key=lambda plan: plan.lower_bound)


def _exact_plan(writer: AgentHandle, name: str, owner: str | None) -> Plan:
    """Return the best plan with exactly this name or id. Raises `NotFound`."""
    if owner in {None, writer.name}:
        try:
            return _best_plan([writer], name)
        except NotFound:
            if owner is not None:
                raise
    plans = _shared_plans(writer, name, owner)
    plans = plans or [plan for plan in _recorded(writer, name, shared=True) if owner in {None, plan.owner}]
    if not plans:
        return _best_plan([writer] if owner is None else [], name)
    return max(plans, key=lambda plan: plan.lower_bound)


def _resolve_name(writer: AgentHandle, words: str) -> str:
    """Return the name of the only own pattern that matches some words, or the words if there is none."""
    from engram.learning.patterns.pattern_lookup import find_one_name, pattern_names

    learning = writer.learning
    found = find_one_name(
        words, pattern_names([*learning.failures(quiet=True), *learning.synthesis(quiet=True).patterns])
    )
    return found[0].name if found else words


def _shared_plans(writer: AgentHandle, name: str, owner: str | None, *, words: bool = False) -> list[Plan]:
    found = writer.shared_patterns.find(name, owner, words=words)
    return [plan for shared in found for plan in _from_shared(shared)]


def _from_shared(shared: SharedPattern) -> Iterator[Plan]:
    """Yield the plan of a shared pattern, with the receiver's own outcomes beside the owner's figures."""
    from engram.model import FailurePattern, SuccessPattern

    pattern, own = shared.pattern, shared.own
    if isinstance(pattern, SuccessPattern):
        plan = _from_success(shared.source.name, pattern)
    elif isinstance(pattern, FailurePattern) and pattern.known_solutions:
        plan = _from_failure(shared.source.name, pattern)
    else:
        return
    if own is not None and own.attempts:
        own_rate = f"own: {own.success_rate:.0%} after {plural(own.attempts, 'attempt')}"
        plan = replace(plan, evidence=f"{plan.evidence}; {own_rate}", success_rate=own.success_rate)
    yield plan if own is None else replace(plan, lower_bound=own.interval[0])


def _best_plan(owners: Sequence[AgentHandle], name: str) -> Plan:
    """Return the best plan: a success pattern, else a solution, else a recorded success. Raises `NotFound`."""
    for source in (_success_patterns, _solutions, _recorded):
        plans = [plan for owner in owners for plan in source(owner, name)]
        if plans:
            return max(plans, key=lambda plan: plan.lower_bound)
    if any(owner.learning.failure(name) is not None for owner in owners):
        raise NotFound(f"no solution of {name} is known yet; `engram memory record --type failure` records one")
    raise NotFound(
        f"there is no pattern {name}; `engram learning patterns` shows what there is, --from names another agent"
    )


def _success_patterns(owner: AgentHandle, name: str) -> Iterator[Plan]:
    for pattern in owner.learning.synthesis().patterns:
        if name in {pattern.name, pattern.pattern_id}:
            yield _from_success(owner.name, pattern)


def _solutions(owner: AgentHandle, name: str) -> Iterator[Plan]:
    failure = owner.learning.failure(name)
    if failure is not None and failure.known_solutions:
        yield _from_failure(owner.name, failure)


def _recorded(owner: AgentHandle, name: str, *, shared: bool = False) -> Iterator[Plan]:
    from engram.learning.patterns.successes import slug
    from engram.model import SuccessContent

    for memory in owner.list(kinds="success", limit=MAX_SUCCESSES, shared=shared):
        content = memory.content
        if isinstance(content, SuccessContent) and name in {memory.id, slug(content.successful_approach) or None}:
            yield _from_memory(memory, content.successful_approach, content.key_factors, content.replication_steps)
            return


def _from_success(owner: str, pattern: SuccessPattern) -> Plan:
    return Plan(
        owner=owner,
        pattern_id=pattern.pattern_id,
        name=pattern.name,
        context=pattern.context_signature,
        action=pattern.successful_approach,
        steps=pattern.replication_steps,
        evidence=format_rate(pattern.success_rate, pattern.attempts),
        key_factors=format_factors(pattern.key_factors),
        success_rate=pattern.success_rate,
        lower_bound=pattern.interval[0],
    )


def _from_failure(owner: str, failure: FailurePattern) -> Plan:
    best = failure.known_solutions[0]
    return Plan(
        owner=owner,
        pattern_id=failure.pattern_id,
        name=failure.name,
        context=next(filter(str.strip, failure.contexts), failure.name),
        action=best.text,
        steps=(best.text,),
        evidence=format_rate(best.success_rate, best.tried),
        success_rate=best.success_rate,
        lower_bound=best.interval[0],
    )


def _from_memory(memory: Memory, approach: str, why: Sequence[str], steps: Sequence[str]) -> Plan:
    return Plan(
        owner=memory.agent,
        pattern_id=memory.id,
        name=approach or memory.id,
        context=memory.context or approach or memory.text,
        action=approach or memory.text,
        steps=tuple(steps) or (approach or memory.text,),
        evidence="as recorded, success rate not known yet",
        key_factors=", ".join(why),
    )
