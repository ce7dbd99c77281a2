"""`engram learning apply-pattern`: do again what worked, and keep track of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import click

from engram.cli.formatting import one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import Command, agent_option
from engram.cli.patterns import factors, rated
from engram.cli.render import print_json
from engram.errors import NotAllowed, NotFound

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.model import FailurePattern, Memory, SuccessPattern
    from engram.model.shared import SharedPattern

CONFLICT = 5
TOLD = 1000
"""So many successes that somebody told of are looked through, the newest."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and why it is believed to work; `sure` says which of several plans is taken."""

    owner: str
    pattern_id: str
    name: str
    context: str
    action: str
    steps: tuple[str, ...]
    evidence: str
    key_factors: str = ""
    success_rate: float | None = None
    sure: float = 0.0


@click.command("apply-pattern", cls=Command)
@click.argument("name")
@click.option("--task", required=True, metavar="NAME", help="The task it is applied in: the session of the decision.")
@click.option(
    "--from", "giver", metavar="NAME", help="Whose pattern, by its consent. Default: its own, or one that is shared."
)
@agent_option
@click.pass_context
def apply_pattern(ctx: click.Context, name: str, task: str, giver: str | None, agent: str | None) -> None:
    """Show how to do again what worked, and record that it is being done.

    NAME is the name or id of a success pattern, of a failure whose best solution is meant, or of a success that was
    recorded; any word of a name that means one pattern will do. The decision is recorded without an outcome;
    `engram learning outcome` tells it later. A pattern of another agent takes a grant to learn from it, and a recorded
    success one to read it; the use is logged. Without --agent, the agent is `default`; if it has no such pattern, the
    agent that learned it does it again.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        if agent is not None or bool(cli.settings.agent) or giver is not None:
            writer = cli.writer(brain, agent)
            plan = _allowed(writer, name, giver)
        else:
            writer, plan = _by_default(cli, brain, name)
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
        told = {field: value for field, value in asdict(plan).items() if field not in {"owner", "sure"}}
        print_json({"decision": receipt.id, "task": task, "agent": writer.name, "from": plan.owner, **told})
        return
    click.echo(f'Applying pattern "{one_line(plan.name)}" of {one_line(plan.owner)} ({plan.evidence}):')
    click.echo(f"  Context: {one_line(plan.context)}")
    if plan.key_factors:
        click.echo(f"  Key factors: {one_line(plan.key_factors)}")
    for number, step in enumerate(plan.steps, 1):
        click.echo(f"  {number}. {one_line(step)}")
    click.echo(f"  Recorded decision {receipt.id} in task {one_line(task)}")
    click.echo(f"  How it goes: engram learning outcome {receipt.id} success|failure|partial")


def _by_default(cli: Invocation, brain: Engram, name: str) -> tuple[AgentHandle, Plan]:
    """Give the default agent with its plan, or if it has none, the agent that learned one, for which it is applied.

    Whoever names no agent acts as the owner of the database, and nothing goes from one agent to another.
    """
    writer = cli.writer(brain, None)
    try:
        return writer, _allowed(writer, name, None)
    except NotFound:
        agents = cli.readers(brain, None)
        meant = next((found for agent in agents if (found := _meant(agent, name)) != name), name)
        plan = _found(agents, meant)
    return brain.agent(plan.owner), plan


def _allowed(writer: AgentHandle, name: str, giver: str | None) -> Plan:
    """The surest plan among the agent's own and those that are shared with it. Raises `NotAllowed` and `NotFound`.

    The refusal is the same whether or not the other agent has such a pattern.
    """
    if giver not in {None, writer.name}:
        readable = {source.name for source in writer.grants.sources()}
        imported = [name for name in sorted(readable) if name.partition("@")[0] == giver]
        if giver not in readable and len(imported) == 1:
            (giver,) = imported
        if giver not in readable:
            raise NotAllowed(
                f"{giver} shares nothing with {writer.name}; ask for it: engram grant request "
                f"--agent {writer.name} --from {giver} --pattern {name} --purpose …"
            )
    try:
        return _called(writer, name, giver)
    except NotFound:
        meant = _meant(writer, name) if giver in {None, writer.name} else name
        if meant != name:
            return _called(writer, meant, giver)
        plans = _of_others(writer, name, giver, words=True)
        if not plans:
            raise
        return max(plans, key=lambda plan: plan.sure)


def _called(writer: AgentHandle, name: str, giver: str | None) -> Plan:
    """The surest plan of exactly this name or id. Raises `NotFound`."""
    if giver in {None, writer.name}:
        try:
            return _found([writer], name)
        except NotFound:
            if giver is not None:
                raise
    plans = _of_others(writer, name, giver)
    plans = plans or [plan for plan in _told(writer, name, shared=True) if giver in {None, plan.owner}]
    if not plans:
        return _found([writer] if giver is None else [], name)
    return max(plans, key=lambda plan: plan.sure)


def _meant(writer: AgentHandle, words: str) -> str:
    """The name of the one own pattern that is about these words, or the words if there is none."""
    from engram.learning.patterns.pattern_lookup import find_one_name, pattern_names

    learning = writer.learning
    found = find_one_name(
        words, pattern_names([*learning.failures(quiet=True), *learning.synthesis(quiet=True).patterns])
    )
    return found[0].name if found else words


def _of_others(writer: AgentHandle, name: str, giver: str | None, *, words: bool = False) -> list[Plan]:
    found = writer.shared_patterns.find(name, giver, words=words)
    return [plan for shared in found for plan in _of_shared(shared)]


def _of_shared(shared: SharedPattern) -> Iterator[Plan]:
    """The plan of a pattern that others shared, with the receiver's own outcomes beside the owner's figures."""
    from engram.model import FailurePattern, SuccessPattern

    pattern, own = shared.pattern, shared.own
    if isinstance(pattern, SuccessPattern):
        plan = _of_success(shared.source.name, pattern)
    elif isinstance(pattern, FailurePattern) and pattern.known_solutions:
        plan = _of_failure(shared.source.name, pattern)
    else:
        return
    if own is not None and own.attempts:
        tried = f"own: {own.success_rate:.0%} after {plural(own.attempts, 'attempt')}"
        plan = replace(plan, evidence=f"{plan.evidence}; {tried}", success_rate=own.success_rate)
    yield plan if own is None else replace(plan, sure=own.interval[0])


def _found(lenders: Sequence[AgentHandle], name: str) -> Plan:
    """The surest plan of this name: a success pattern before a solution, before what was told. Raises `NotFound`."""
    for source in (_replicated, _solved, _told):
        plans = [plan for lender in lenders for plan in source(lender, name)]
        if plans:
            return max(plans, key=lambda plan: plan.sure)
    if any(lender.learning.failure(name) is not None for lender in lenders):
        raise NotFound(f"nothing that solves {name} is known yet; `engram memory record --type failure` can tell it")
    raise NotFound(
        f"there is no pattern {name}; `engram learning patterns` shows what there is, --from names another agent"
    )


def _replicated(lender: AgentHandle, name: str) -> Iterator[Plan]:
    for pattern in lender.learning.synthesis().patterns:
        if name in {pattern.name, pattern.pattern_id}:
            yield _of_success(lender.name, pattern)


def _solved(lender: AgentHandle, name: str) -> Iterator[Plan]:
    failure = lender.learning.failure(name)
    if failure is not None and failure.known_solutions:
        yield _of_failure(lender.name, failure)


def _told(lender: AgentHandle, name: str, *, shared: bool = False) -> Iterator[Plan]:
    from engram.learning.patterns.successes import slug
    from engram.model import SuccessContent

    for memory in lender.list(kinds="success", limit=TOLD, shared=shared):
        content = memory.content
        if isinstance(content, SuccessContent) and name in {memory.id, slug(content.successful_approach) or None}:
            yield _of_memory(memory, content.successful_approach, content.key_factors, content.replication_steps)
            return


def _of_success(owner: str, pattern: SuccessPattern) -> Plan:
    return Plan(
        owner=owner,
        pattern_id=pattern.pattern_id,
        name=pattern.name,
        context=pattern.context_signature,
        action=pattern.successful_approach,
        steps=pattern.replication_steps,
        evidence=rated(pattern.success_rate, pattern.attempts),
        key_factors=factors(pattern.key_factors),
        success_rate=pattern.success_rate,
        sure=pattern.interval[0],
    )


def _of_failure(owner: str, failure: FailurePattern) -> Plan:
    best = failure.known_solutions[0]
    return Plan(
        owner=owner,
        pattern_id=failure.pattern_id,
        name=failure.name,
        context=next(filter(str.strip, failure.contexts), failure.name),
        action=best.text,
        steps=(best.text,),
        evidence=rated(best.success_rate, best.tried),
        success_rate=best.success_rate,
        sure=best.interval[0],
    )


def _of_memory(memory: Memory, approach: str, why: Sequence[str], steps: Sequence[str]) -> Plan:
    return Plan(
        owner=memory.agent,
        pattern_id=memory.id,
        name=approach or memory.id,
        context=memory.context or approach or memory.text,
        action=approach or memory.text,
        steps=tuple(steps) or (approach or memory.text,),
        evidence="as it was told, success rate not known yet",
        key_factors=", ".join(why),
    )
