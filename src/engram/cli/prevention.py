"""`engram prevention`: checks that warn before actions that are known to fail."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import escaped, format_time, one_line, plural
from engram.cli.invocation import Invocation, only_owner
from engram.cli.options import CommandGroup, circumstances_options, owner_option, reader_option
from engram.cli.patterns import format_interval, format_rate, source_words
from engram.cli.render import preview, print_json, print_table, to_json, with_agent
from engram.errors import EngramError, InvalidInput, NotAllowed, NotFound
from engram.learning.failures.variable_parts import error_text

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram
    from engram.model import Effect, FailureRate, PreventionCheck, Verdict

NOT_ALLOWED = 4
NO_MEMORY = "there is no memory yet, so nothing is known about it"
SEVERITY = ("allow", "warn", "block")


@click.group("prevention", cls=CommandGroup)
def command() -> None:
    """Prevent known failures from recurring.

    A check is made from a failure and its solution, and warns before an action that is known to fail. A check whose
    warnings are ignored without harm is relaxed, then only warns; if it stays wrong, it is retired.
    """


@command.command("generate")
@click.option("--pattern", required=True, metavar="NAME", help="The failure: its name or id.")
@click.option("--stage", default="", metavar="NAME", help="The workflow stage the check belongs to.")
@click.option(
    "--command",
    "program",
    metavar="COMMAND",
    help="A program with arguments that exits with 0 if the condition is met.",
)
@owner_option
@click.pass_context
def generate(ctx: click.Context, pattern: str, stage: str, program: str | None, agent: str | None) -> None:
    """Make a prevention check from a failure and its solution."""
    cli, words = ctx.ensure_object(Invocation), _words(program)
    with cli.brain() as brain:
        made = _generate(cli, brain, agent, pattern, stage, words)
    if cli.json:
        print_json(to_json(made))
    for check in () if cli.json else made:
        click.echo(f"Created prevention check: {one_line(check.name)}")
        click.echo(f"  Added to workflow stage: {one_line(check.stage)}")
        click.echo(f"  Verify: {preview(check.verify)}")
        if check.command is not None:
            click.echo(f"  Command: {one_line(shlex.join(check.command))}")
    if not made:
        cli.error("failed", f"there is nothing to check for {pattern}: neither an action nor a solution is known")
        ctx.exit(1)


@command.command("list")
@reader_option
@click.pass_obj
def list_(cli: Invocation, agent: str | None) -> None:
    """List the prevention checks, including those shared with a selected agent."""
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        selected = cli.selected(agent) is not None
        own = [(reader.name, check) for reader in readers for check in reader.learning.checks()]
        shared = [
            (reader.name, each) for reader in readers for each in reader.shared_patterns.checks(imports=not selected)
        ]
    found = [*own, *((source_words(each.source), each.check) for _, each in shared)]
    if cli.json:
        values = [with_agent(each) for each in own]
        values += [
            {"agent": name, **each.check.model_dump(mode="json"), "source": each.source.model_dump(mode="json")}
            for name, each in shared
        ]
        print_json(values)
    elif not found:
        click.echo("No prevention checks yet.")
    else:
        rows = [
            [
                one_line(check.name),
                check.status,
                one_line(check.stage),
                f"{check.fired:,}",
                one_line(name),
                preview(check.verify),
            ]
            for name, check in found
        ]
        print_table(["NAME", "STATUS", "STAGE", "WARNINGS", "AGENT", "VERIFY"], rows)


@command.command("check")
@click.option("--action", required=True, help="The action, such as a command line.")
@click.option("--context", default="", help="The situation.")
@circumstances_options
@click.option("--strict", is_flag=True, help="Also exit with 4 after a warning.")
@reader_option
@click.pass_context
def check(ctx: click.Context, /, strict: bool, agent: str | None, **request: Any) -> None:
    """Check if an action is known to fail before taking it.

    Exit code 0: the action is allowed, possibly with a warning; 4: it is blocked. Of several agents, the most severe
    verdict counts. If there is no database yet, everything is allowed.
    """
    from engram import wiring

    cli = ctx.ensure_object(Invocation)
    no_database = cli.missing is not None
    with wiring.open(":memory:", say=cli.notice, vectors="") if no_database else cli.brain() as brain:
        owner, verdict, fired = _most_severe(cli, brain, agent, request)
    if no_database:
        verdict = verdict.model_copy(update={"reason": NO_MEMORY})
    if cli.json:
        print_json(verdict.model_dump(mode="json"))
    else:
        _print_verdict(owner, verdict, fired)
    if verdict.decision == "block" or (strict and verdict.decision == "warn"):
        ctx.exit(NOT_ALLOWED)


@command.command("run")
@click.argument("name", metavar="CHECK")
@click.option("--allow", is_flag=True, help="Allow the command to run.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="The time limit, at most 60.")
@owner_option
@click.pass_context
def run(ctx: click.Context, name: str, allow: bool, seconds: float, agent: str | None) -> None:
    """Run the command of a check, and record if its condition is met.

    Without --allow, it only prints the command, and exits with 4. The command runs without a shell. Exit code 0: the
    condition is met; 1: it is not.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        owner, check = _find_check(cli, brain, name, agent)
        if check.command is not None and not allow:
            raise NotAllowed(f"this would run: {shlex.join(check.command)}; add --allow to run it")
        done, result = owner.learning.run(check.id, allowed=allow, seconds=seconds)
    if cli.json:
        print_json({"check": done.name, "command": list(done.command or ()), **asdict(result)})
    else:
        click.echo(f"{one_line(done.name)}: {one_line(result.reason)}")
        click.echo(escaped(result.output), nl=bool(result.output) and not result.output.endswith("\n"))
    if not result.met:
        ctx.exit(1)


@command.command("effect")
@click.argument("name", metavar="[CHECK]", required=False)
@reader_option
@click.pass_obj
def effect(cli: Invocation, name: str | None, agent: str | None) -> None:
    """Show the effect of checks: failures per opportunity before them, when heeded, and when ignored."""
    with cli.brain() as brain:
        if name is None:
            found = [check for reader in cli.readers(brain, agent) for check in reader.learning.checks()]
        else:
            found = [_find_check(cli, brain, name, agent)[1]]
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("No prevention checks yet.")
    else:
        print_table(
            ["CHECK", "STATUS", "BEFORE", "HEEDED", "IGNORED", "FALSE ALARMS", "HELPS"],
            [_effect_row(check) for check in found],
        )


def _words(program: str | None) -> list[str] | None:
    try:
        return None if program is None else shlex.split(program)
    except ValueError as error:
        raise click.BadParameter(f"it cannot be read: {error}.", param_hint="--command") from None


def _generate(
    cli: Invocation, brain: Engram, agent: str | None, pattern: str, stage: str, program: list[str] | None
) -> list[PreventionCheck]:
    """Generate checks for the only agent that has the pattern. Raises `NotFound` and `InvalidInput`."""
    from engram.model import FailurePattern

    owners, selected = cli.readers(brain, agent), cli.selected(agent) is not None
    found = [(owner.name, owner) for owner in owners if owner.learning.failure(pattern) is not None]
    if not found:
        for each in (one for owner in owners for one in owner.shared_patterns.list(("failure",), imports=not selected)):
            if isinstance(each.pattern, FailurePattern) and pattern in {each.pattern.pattern_id, each.pattern.name}:
                raise NotFound(
                    f"{pattern} was {source_words(each.source)}: checks are made only from an agent's own failures; "
                    "`engram memory record --type failure` records one when it happens here"
                )
    return only_owner(found, f"failure pattern {pattern}", "learning failures").learning.generate(
        pattern, stage=stage, command=program
    )


def _find_check(cli: Invocation, brain: Engram, name: str, agent: str | None) -> tuple[AgentHandle, PreventionCheck]:
    """Return the only check with a name or id, and its agent. Raises `NotFound` and `InvalidInput`."""
    readers, selected = cli.readers(brain, agent), cli.selected(agent) is not None
    found = [(reader, each) for reader in readers for each in reader.learning.checks() if name in {each.id, each.name}]
    error: EngramError = NotFound(f"there is no check {name}; `engram prevention list` shows what there is")
    if len(found) > 1:
        owners = ", ".join(f"{each.id} of {reader.name}" for reader, each in found)
        error = InvalidInput(f"there are several checks {name}: {owners}; give the id, or --agent")
    if not found:
        for each in (one for reader in readers for one in reader.shared_patterns.checks(imports=not selected)):
            if name in {each.check.id, each.check.name}:
                error = NotFound(
                    f"{name} was {source_words(each.source)}: only an agent's own checks are run and measured; "
                    "`engram prevention generate` makes one from its own failure"
                )
    if len(found) != 1:
        raise error
    return found[0]


def _most_severe(
    cli: Invocation, brain: Engram, agent: str | None, request: dict[str, Any]
) -> tuple[str, Verdict, list[PreventionCheck]]:
    """Return the agent with the most severe verdict, the verdict, and the checks behind it."""
    readers = cli.readers(brain, agent) or [cli.writer(brain, agent)]
    verdicts = [(reader.check(**request), reader) for reader in readers]
    verdict, reader = max(verdicts, key=lambda each: (SEVERITY.index(each[0].decision), each[0].confidence))
    fired = [each for each in reader.learning.checks() if each.id in verdict.checks] if verdict.checks else []
    return reader.name, verdict, fired


def _print_verdict(owner: str, verdict: Verdict, fired: list[PreventionCheck]) -> None:
    click.echo(f"{verdict.decision.upper()}: {one_line(verdict.reason)}")
    if verdict.failure_rate is not None:
        click.echo(f"  Expected to fail: {verdict.failure_rate:.0%}")
    for failure in verdict.failures:
        name = f"{one_line(failure.name)}: {preview(error_text(failure))}" if failure.name else "without an error"
        counts = f"failed {plural(failure.failures, 'time')}, worked {plural(failure.successes, 'time')}"
        click.echo(f"  • Known failure: {name} ({counts}, last {format_time(failure.last_seen)})")
    for each in fired:
        click.echo(f"  • Check: {preview(each.verify)} ({one_line(each.name)})")
    for remedy in verdict.instead:
        click.echo(f"  • Worked instead: {preview(remedy.text)} ({format_rate(remedy.success_rate, remedy.attempts)})")
    if verdict.id is not None:
        click.echo(
            f"  Verdict {verdict.id} of {one_line(owner)}: give it with --informed-by when you record the decision"
        )


def _effect_row(check: PreventionCheck) -> list[str]:
    measured = check.effect
    if measured is None:
        return [one_line(check.name), check.status, "-", "-", "-", "-", "not known yet"]
    rates = [
        _format_failure_rate(measured.before),
        _format_failure_rate(measured.heeded),
        _format_failure_rate(measured.ignored),
    ]
    helps = _helps(measured) if measured.heeded and measured.heeded.opportunities else "not known yet"
    return [one_line(check.name), check.status, *rates, f"{measured.false_alarms:,} of {measured.went_ahead:,}", helps]


def _format_failure_rate(rate: FailureRate | None) -> str:
    if rate is None or not rate.opportunities:
        return "-"
    return f"{rate.rate:.0%} ({format_interval(rate.interval)}) of {rate.opportunities:,}"


def _helps(effect: Effect) -> str:
    from engram.learning.decisions.suggestions import certainty

    low, high = effect.interval
    points = f"{effect.difference * 100:+.0f} points ({low * 100:+.0f} to {high * 100:+.0f})"
    return f"{certainty(effect.helps)} likely, by {points}"
