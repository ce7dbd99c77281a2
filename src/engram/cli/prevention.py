"""`engram prevention`: checks that keep known failures from coming back."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import escaped, format_time, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, circumstances_options, owner_option, reader_option
from engram.cli.patterns import between, rated, whose
from engram.cli.render import preview, print_json, print_table, to_json
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
    """Keep known failures from coming back.

    A check is made from a failure and what solved it, and speaks up before an action that is known to fail. One that
    is ignored and wrong is loosened and then only warns; one that stays wrong is retired.
    """


@command.command("generate")
@click.option("--pattern", required=True, metavar="NAME", help="The failure: its name or id.")
@click.option("--stage", default="", metavar="NAME", help="The stage of the workflow it belongs to.")
@click.option(
    "--command", "program", metavar="COMMAND", help="A program with arguments that exits with 0 if all is well."
)
@owner_option
@click.pass_context
def generate(ctx: click.Context, pattern: str, stage: str, program: str | None, agent: str | None) -> None:
    """Make a prevention check from a failure and what solved it."""
    cli, words = ctx.ensure_object(Invocation), _words(program)
    with cli.brain() as brain:
        made = _generated(cli, brain, agent, pattern, stage, words)
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
    """List the prevention checks, and those that others share with a named agent."""
    with cli.brain() as brain:
        readers = cli.readers(brain, agent)
        named = agent is not None or bool(cli.settings.agent)
        own = [(reader.name, check) for reader in readers for check in reader.learning.checks()]
        shared = [
            (reader.name, each) for reader in readers for each in reader.shared_patterns.checks(imports=not named)
        ]
    found = [*own, *((whose(each.source), each.check) for _, each in shared)]
    if cli.json:
        told = [{"agent": name, **check.model_dump(mode="json")} for name, check in own]
        told += [
            {"agent": name, **each.check.model_dump(mode="json"), "source": each.source.model_dump(mode="json")}
            for name, each in shared
        ]
        print_json(told)
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
        print_table(["NAME", "STATUS", "STAGE", "SPOKE UP", "AGENT", "VERIFY"], rows)


@command.command("check")
@click.option("--action", required=True, help="What is about to be done, such as a command line.")
@click.option("--context", default="", help="The situation.")
@circumstances_options
@click.option("--strict", is_flag=True, help="Exit with 4 after a warning, too.")
@reader_option
@click.pass_context
def check(ctx: click.Context, /, strict: bool, agent: str | None, **asked: Any) -> None:
    """Ask before an action whether it is known to fail.

    It exits with 0 if the action may go ahead, even with a warning, and with 4 if it is blocked. Of several agents, the
    most severe verdict counts. As long as there is no database, everything may go ahead.
    """
    from engram import wiring

    cli = ctx.ensure_object(Invocation)
    new = cli.missing is not None
    with wiring.open(":memory:", say=cli.notice, vectors="") if new else cli.brain() as brain:
        owner, verdict, spoke = _severest(cli, brain, agent, asked)
    if new:
        verdict = verdict.model_copy(update={"reason": NO_MEMORY})
    if cli.json:
        print_json(verdict.model_dump(mode="json"))
    else:
        _print_verdict(owner, verdict, spoke)
    if verdict.decision == "block" or (strict and verdict.decision == "warn"):
        ctx.exit(NOT_ALLOWED)


@command.command("run")
@click.argument("name", metavar="CHECK")
@click.option("--allow", is_flag=True, help="Really run the command.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Stop it after so long; 60 at most.")
@owner_option
@click.pass_context
def run(ctx: click.Context, name: str, allow: bool, seconds: float, agent: str | None) -> None:
    """Run the command of a check, and note whether its condition holds.

    Without --allow nothing is run; it says what would be, and exits with 4. No shell is involved. It exits with 0 if
    the condition holds, else with 1.
    """
    cli = ctx.ensure_object(Invocation)
    with cli.brain() as brain:
        owner, known = _check(cli, brain, name, agent)
        if known.command is not None and not allow:
            raise NotAllowed(f"this would be run: {shlex.join(known.command)}; --allow runs it")
        done, ran = owner.learning.run(known.id, allowed=allow, seconds=seconds)
    if cli.json:
        print_json({"check": done.name, "command": list(done.command or ()), **asdict(ran)})
    else:
        click.echo(f"{one_line(done.name)}: {one_line(ran.reason)}")
        click.echo(escaped(ran.output), nl=bool(ran.output) and not ran.output.endswith("\n"))
    if not ran.met:
        ctx.exit(1)


@command.command("effect")
@click.argument("name", metavar="[CHECK]", required=False)
@reader_option
@click.pass_obj
def effect(cli: Invocation, name: str | None, agent: str | None) -> None:
    """Show what checks changed: failures per opportunity while they were silent, when heeded, and when ignored."""
    with cli.brain() as brain:
        if name is None:
            found = [check for reader in cli.readers(brain, agent) for check in reader.learning.checks()]
        else:
            found = [_check(cli, brain, name, agent)[1]]
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


def _generated(
    cli: Invocation, brain: Engram, agent: str | None, pattern: str, stage: str, program: list[str] | None
) -> list[PreventionCheck]:
    """The checks of whoever has the pattern. Raises `NotFound`, or `InvalidInput` if several have it."""
    from engram.model import FailurePattern

    owners, named = cli.readers(brain, agent), agent is not None or bool(cli.settings.agent)
    having = [owner for owner in owners if owner.learning.failure(pattern) is not None]
    if len(having) > 1:
        names = ", ".join(owner.name for owner in having)
        raise InvalidInput(f"{pattern} is known to {names}; say whose is meant with --agent")
    if not having:
        for each in (one for owner in owners for one in owner.shared_patterns.list(("failure",), imports=not named)):
            if isinstance(each.pattern, FailurePattern) and pattern in {each.pattern.pattern_id, each.pattern.name}:
                raise NotFound(
                    f"{pattern} was {whose(each.source)}: a check is made from a failure of one's own; "
                    "`engram memory record --type failure` records one when it happens here"
                )
        raise NotFound(f"there is no failure pattern {pattern}; `engram learning failures` shows what there is")
    return having[0].learning.generate(pattern, stage=stage, command=program)


def _check(cli: Invocation, brain: Engram, name: str, agent: str | None) -> tuple[AgentHandle, PreventionCheck]:
    """The check of this name or id, and whose it is. Raises `NotFound`, or `InvalidInput` if several have it."""
    readers, named = cli.readers(brain, agent), agent is not None or bool(cli.settings.agent)
    found = [(reader, each) for reader in readers for each in reader.learning.checks() if name in {each.id, each.name}]
    missing: EngramError = NotFound(f"there is no check {name}; `engram prevention list` shows what there is")
    if len(found) > 1:
        owners = ", ".join(f"{each.id} of {reader.name}" for reader, each in found)
        missing = InvalidInput(f"there are several checks {name}: {owners}; give the id, or --agent")
    if not found:
        for each in (one for reader in readers for one in reader.shared_patterns.checks(imports=not named)):
            if name in {each.check.id, each.check.name}:
                missing = NotFound(
                    f"{name} was {whose(each.source)}: only checks of one's own are run and measured here; "
                    "`engram prevention generate` makes one from a failure of one's own"
                )
    if len(found) != 1:
        raise missing
    return found[0]


def _severest(
    cli: Invocation, brain: Engram, agent: str | None, asked: dict[str, Any]
) -> tuple[str, Verdict, list[PreventionCheck]]:
    """Who is most severe of those who are asked, the verdict, and the checks that spoke up in it."""
    readers = cli.readers(brain, agent) or [cli.writer(brain, agent)]
    verdicts = [(reader.check(**asked), reader) for reader in readers]
    verdict, reader = max(verdicts, key=lambda each: (SEVERITY.index(each[0].decision), each[0].confidence))
    spoke = [each for each in reader.learning.checks() if each.id in verdict.checks] if verdict.checks else []
    return reader.name, verdict, spoke


def _print_verdict(owner: str, verdict: Verdict, spoke: list[PreventionCheck]) -> None:
    click.echo(f"{verdict.decision.upper()}: {one_line(verdict.reason)}")
    if verdict.failure_rate is not None:
        click.echo(f"  Expected to fail: {verdict.failure_rate:.0%}")
    for failure in verdict.failures:
        name = f"{one_line(failure.name)}: {preview(error_text(failure))}" if failure.name else "without an error"
        counts = f"failed {plural(failure.failures, 'time')}, worked {plural(failure.successes, 'time')}"
        click.echo(f"  • Known failure: {name} ({counts}, last {format_time(failure.last_seen)})")
    for each in spoke:
        click.echo(f"  • Check: {preview(each.verify)} ({one_line(each.name)})")
    for remedy in verdict.instead:
        click.echo(f"  • Worked instead: {preview(remedy.text)} ({rated(remedy.success_rate, remedy.attempts)})")
    if verdict.id is not None:
        click.echo(
            f"  Verdict {verdict.id} of {one_line(owner)}: name it with --informed-by when recording what was done"
        )


def _effect_row(check: PreventionCheck) -> list[str]:
    known = check.effect
    if known is None:
        return [one_line(check.name), check.status, "-", "-", "-", "-", "not known yet"]
    rates = [_failing(known.before), _failing(known.heeded), _failing(known.ignored)]
    helps = _helps(known) if known.heeded and known.heeded.opportunities else "not known yet"
    return [one_line(check.name), check.status, *rates, f"{known.false_alarms:,} of {known.went_ahead:,}", helps]


def _failing(rate: FailureRate | None) -> str:
    if rate is None or not rate.opportunities:
        return "-"
    return f"{rate.rate:.0%} ({between(rate.interval)}) of {rate.opportunities:,}"


def _helps(effect: Effect) -> str:
    from engram.learning.decisions.comparisons import certainty

    low, high = effect.interval
    points = f"{effect.difference * 100:+.0f} points ({low * 100:+.0f} to {high * 100:+.0f})"
    return f"{certainty(effect.helps)} likely, by {points}"
