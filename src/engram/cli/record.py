"""`engram memory add` and `engram memory record`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engram.cli import jsonl
from engram.cli.formatting import one_line
from engram.cli.invocation import Invocation
from engram.cli.options import KIND, Command, agent_option, draft_options, parse_fraction
from engram.cli.patterns import format_rate
from engram.cli.render import print_json

if TYPE_CHECKING:
    from engram.engine import AgentHandle
    from engram.model import FailurePattern, Receipt

CONFLICT = 5

# For each type: its options, and the field of the content that each fills.
CONTENT = {
    "decision": {},
    "failure": {
        "error": "error_signature",
        "root_cause": "root_cause",
        "solution": "solution_applied",
        "prevention": "prevention_strategy",
        "solution_helped": "solution_helped",
        "action": "action",
        "environment": "environment",
        "tool": "tool",
        "task_type": "task_type",
    },
    "success": {"approach": "successful_approach", "factor": "key_factors", "step": "replication_steps"},
    "collaboration": {
        "partner": "partner_agents",
        "interaction": "interaction_type",
        "outcome": "outcome",
        "lesson": "lessons_learned",
    },
    "knowledge": {
        "domain": "domain",
        "knowledge_type": "knowledge_type",
        "expertise": "expertise_level",
        "related": "related_entities",
    },
    "plan": {"step": "steps"},
    "procedure": {"step": "steps"},
    "result": {"error": "error", "artifact": "artifacts"},
}
# The options of a decision, and the parameters of `record_decision`.
DECISION = {
    "action": "action",
    "outcome": "outcome",
    "alternative": "alternatives",
    "environment": "environment",
    "tool": "tool",
    "task_type": "task_type",
    "error": "error",
    "informed_by": "informed_by",
}
# Fields that are not included in the text of a memory.
NOT_IN_TEXT = frozenset({"ok", "context_signature", "solution_helped", "action", "environment", "tool", "task_type"})


def parse_helped(value: str) -> float:
    """Parse yes, no, or a number from 0 to 1."""
    return {"yes": 1.0, "no": 0.0}[value] if value in {"yes", "no"} else parse_fraction(value)


@click.command("add", cls=Command)
@click.argument("text", required=False)
@agent_option
@click.option(
    "--jsonl",
    "lines",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Store many: one JSON object or string per line; - is standard input.",
)
@click.option("--kind", type=KIND, metavar="KIND", help="The kind of memory. Default: observation.")
@draft_options
@click.option("--context", help="The situation it is about.")
@click.option("--role", help="The role of the speaker, such as user or assistant.")
@click.option("--speaker", help="Who said it.")
@click.pass_context
def add(ctx: click.Context, /, text: str | None, agent: str | None, lines: str | None, **fields: Any) -> None:
    """Store TEXT as a memory; with - the text is read from standard input.

    --jsonl stores many memories, 500 in a transaction. Each line is a text, or an object with the fields text, kind,
    tags, at, session, role, speaker, importance, confidence, key, metadata, context, content, sources, valid_from and
    valid_until; the options given here are defaults for all lines. Rejected lines are reported with the reason, and
    the exit code is then 1. If a run is interrupted, what was stored stays stored: with a `key` in every line, running
    it again stores nothing twice.
    """
    cli = ctx.ensure_object(Invocation)
    given = {name: value for name, value in fields.items() if value not in (None, ())}
    if (text is None) == (lines is None):
        raise click.UsageError("Give a text, or - to read it from standard input, or --jsonl FILE.")
    if lines is not None and "key" in given:
        raise click.UsageError("--key is for one memory; in a --jsonl file each line has its own key.")
    content = jsonl.read_text() if text == "-" else text
    with cli.brain(create=True) as brain:
        writer = cli.writer(brain, agent)
        if content is None:
            ctx.exit(jsonl.store_file(cli, writer, str(lines), given))
        receipt = writer.remember(content, **given)
        _print_receipt(ctx, cli, writer, receipt)


@click.command("record", cls=Command)
@agent_option
@click.option(
    "--type", "kind", type=KIND, metavar="KIND", default="decision", show_default=True, help="The kind of memory."
)
@click.option("--context", default="", help="The situation, such as auth-failure; required for a decision.")
@click.option("--action", help="decision, failure: what was done.")
@click.option("--outcome", help="decision, result: success, failure, partial or 0..1; collaboration: how it went.")
@click.option("--alternative", multiple=True, metavar="ACTION", help="decision: what else could have been done.")
@click.option("--text", help="What happened. Default: the values of the other options. Not for decisions.")
@click.option("--environment", metavar="NAME", help="decision, failure: where, such as ci.")
@click.option("--tool", metavar="NAME", help="decision, failure: the tool, such as npm.")
@click.option("--task-type", metavar="NAME", help="decision, failure: the type of task, such as deploy.")
@click.option(
    "--informed-by",
    multiple=True,
    metavar="ID",
    help="decision: the id of a recall, suggestion or verdict it was based on; may be repeated.",
)
@click.option("--error", help="decision, failure, result: the error.")
@click.option("--root-cause", help="failure: why it went wrong.")
@click.option("--solution", help="failure: what was done about it.")
@click.option(
    "--solution-helped", type=parse_helped, metavar="yes|no|0..1", help="failure: whether that helped. Default: yes."
)
@click.option("--prevention", help="failure: how to keep it from happening again.")
@click.option("--approach", help="success: what worked.")
@click.option("--factor", multiple=True, help="success: what it depended on; may be repeated.")
@click.option("--step", multiple=True, help="success, plan, procedure: one step; may be repeated, in order.")
@click.option("--partner", multiple=True, metavar="NAME", help="collaboration: with whom; may be repeated.")
@click.option("--interaction", help="collaboration: the type of interaction.")
@click.option("--lesson", multiple=True, help="collaboration: what was learnt; may be repeated.")
@click.option("--domain", help="knowledge: the field.")
@click.option("--knowledge-type", help="knowledge: the type of knowledge.")
@click.option("--expertise", help="knowledge: the level of expertise.")
@click.option("--related", multiple=True, help="knowledge: a related entity; may be repeated.")
@click.option("--artifact", multiple=True, help="result: what it produced; may be repeated.")
@draft_options
@click.pass_context
def record(
    ctx: click.Context,
    /,
    agent: str | None,
    kind: str,
    context: str,
    text: str | None,
    tags: tuple[str, ...],
    at: object,
    session: str | None,
    importance: float | None,
    key: str | None,
    metadata: dict[str, Any] | None,
    **details: Any,
) -> None:
    """Record a decision and its outcome, or another experience.

    The help of each option names the types it belongs to. The outcome of a decision can be reported later with
    `engram learning outcome`.
    """
    cli = ctx.ensure_object(Invocation)
    details = {name: value for name, value in details.items() if value not in (None, ())}
    common: dict[str, Any] = {
        "tags": tags,
        "at": at,
        "session": session,
        "importance": importance,
        "key": key,
        "metadata": metadata,
    }
    common = {name: value for name, value in common.items() if value not in (None, ())}
    _check_details(kind, text, details)
    with cli.brain(create=True) as brain:
        writer = cli.writer(brain, agent)
        if kind == "decision":
            arguments = {DECISION[name]: value for name, value in details.items()}
            receipt = writer.record_decision(context=context, **arguments, **common)
        else:
            content = _content(kind, context, details)
            summary = text if text is not None else _summary(content)
            receipt = writer.remember(summary, kind=kind, context=context, content=content, **common)
        _print_receipt(ctx, cli, writer, receipt, failed=kind == "failure" or "error" in details)


def _check_details(kind: str, text: str | None, details: dict[str, Any]) -> None:
    """Refuse options of another type, and missing required options. Raises `click.UsageError`."""
    allowed = set(DECISION if kind == "decision" else CONTENT.get(kind, {}))
    allowed |= {"outcome"} if kind == "result" else set()
    if others := sorted(details.keys() - allowed):
        raise click.UsageError(f"{_option(others[0])} does not belong to --type {kind}.")
    if kind == "decision":
        if text is not None:
            raise click.UsageError("A decision is given by --context, --action and --outcome; it takes no --text.")
        if "action" not in details:
            raise click.UsageError("A decision needs --context and --action; --action is missing.")
    elif "solution_helped" in details and "solution" not in details:
        raise click.UsageError("--solution-helped needs --solution.")
    elif text is None and not details.keys() - NOT_IN_TEXT:
        raise click.UsageError("Describe what happened with --text.")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _content(kind: str, context: str, details: dict[str, Any]) -> dict[str, Any]:
    fields = CONTENT.get(kind, {})
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in details.items()}
    content = {fields[name]: value for name, value in plain.items() if name in fields}
    if kind == "success" and context:
        content["context_signature"] = context
    if kind == "result" and "outcome" in details:
        from engram.model import quality

        content["ok"] = quality(details["outcome"]) > 0.5
    return content


def _summary(content: dict[str, Any]) -> str:
    """Join the details to a text, so that searches find them."""
    values = [value for name, value in content.items() if name not in NOT_IN_TEXT]
    return "; ".join(", ".join(value) if isinstance(value, list) else value for value in values)


def _print_receipt(
    ctx: click.Context, cli: Invocation, writer: AgentHandle, receipt: Receipt, *, failed: bool = False
) -> None:
    """Print the receipt; exit with 1 or 5 if the memory was rejected."""
    receipt = receipt.worded(lambda hint: hint.shell)
    if cli.json:
        print_json(receipt.model_dump(mode="json"))
    if not receipt.ok:
        cli.error(receipt.code or "failed", f"not stored: {receipt.reason}")
        ctx.exit(CONFLICT if receipt.code == "conflict" else 1)
    if cli.json:
        return
    if receipt.status == "merged":
        existing = writer.get(str(receipt.id))
        click.echo(f"Merged with {receipt.id} (evidence {existing.evidence if existing else '?'})")
    else:
        reason = receipt.reason if receipt.reason not in cli.printed else None
        click.echo(f"Stored {receipt.id}" + (f" ({reason})" if reason else ""))
    if receipt.redacted:
        click.echo(f"Redacted: {', '.join(receipt.redacted)}")
    if receipt.status == "stored" and failed and (pattern := writer.learning.failure(str(receipt.id))) is not None:
        _print_recognised(pattern)


def _print_recognised(known: FailurePattern) -> None:
    """Print that a failure was seen before, and its best solution."""
    if known.occurrence_count > 1:
        click.echo(f"Recognised: {one_line(known.name)}, seen {known.occurrence_count} times")
        for solution in [each for each in known.known_solutions if each.helped > 0][:1]:
            rate = format_rate(solution.success_rate, solution.tried)
            click.echo(f"  Solution: {one_line(solution.text)} ({rate})")
