"""Show an agent that learns: it fails, remembers, does better, notices a change, and explains why (`make demo`).

It has three kinds of work. Every task has new words and numbers, and all tasks share one memory. The output consists of
the program's real answers.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import engram
from engram.model import ActionRecord

DAYS = 9
CHANGE = 4
"""From this day on, rolling updates break the web shop."""
SHOWN = 3
"""Decisions that are shown as evidence."""


@dataclass(frozen=True)
class Job:
    """One kind of work: its wordings, and its possible actions in the order of preference."""

    wordings: tuple[str, ...]
    tools: tuple[str, ...]


JOBS = (
    Job(
        (
            "login to the billing API times out, request 4127",
            "the billing API times out at login, request 4655",
            "login to the billing API times out under load, request 5210",
        ),
        ("increase the timeout", "retry with backoff", "restart the billing service"),
    ),
    Job(
        (
            "release of the web shop, build 2041",
            "release build 2057 of the web shop",
            "release of the web shop, build 2063",
        ),
        ("update all servers at once", "rolling update", "blue-green deployment"),
    ),
    Job(
        (
            "the nightly import of orders stops at a duplicate key, row 3381",
            "duplicate key in the nightly import of orders, row 918",
            "nightly import of orders: duplicate key in row 12077",
        ),
        ("run the import again", "skip duplicates and go on"),
    ),
)
WORKS = {"retry with backoff", "rolling update", "skip duplicates and go on", "blue-green deployment"}
ERRORS = {
    "increase the timeout": "TimeoutError: login timed out after 30 s",
    "update all servers at once": "HTTP 502: no server is up",
    "rolling update": "HTTP 409: the load balancer refuses two versions at once",
    "run the import again": "IntegrityError: duplicate key in orders",
}


def work(tool: str, day: int) -> str | None:
    """Use a tool in the simulated world; return the error if it fails."""
    if tool in WORKS and (tool != "rolling update" or day < CHANGE):
        return None
    return ERRORS[tool]


def task(agent: engram.AgentHandle, job: Job, day: int) -> bool:
    """Ask what to do, check the action, take it, and record the outcome."""
    context = job.wordings[day % len(job.wordings)]
    say(f"\n  {context}")
    suggestion = agent.suggest(context)
    if suggestion.recommended:
        tool = suggestion.recommended
        say(f"    memory: {tool}, because {suggestion.reason}")
    else:
        say(f"    memory: no recommendation: {suggestion.reason}")
        tool = allowed(agent, job.tools, context)
    error = work(tool, day)
    agent.record_decision(context=context, action=tool, outcome="failure" if error else "success", error=error or "")
    say(f"    did: {tool} → {error or 'it worked'}")
    return error is None


def allowed(agent: engram.AgentHandle, tools: Iterable[str], context: str) -> str:
    """Return the first tool that no check warns about, else the last one."""
    tool = ""
    for tool in tools:
        verdict = agent.check(tool, context)
        if verdict.decision == "allow":
            return tool
        say(f"    check of {tool!r}: {verdict.decision}, {verdict.reason}")
    return tool


def explain(agent: engram.AgentHandle, record: ActionRecord) -> None:
    """Print a rate, its interval, and some of the decisions behind it."""
    low, high = record.interval
    say(f"    {record.action}: {record.success_rate:.0%} success rate, 95% interval {low:.0%} to {high:.0%}, from")
    for id in (*record.episodes_for, *record.episodes_against, *record.near)[:SHOWN]:
        if (memory := agent.get(id)) is not None:
            say(f"      {memory.context}: {memory.text}")


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def say(text: str) -> None:
    """Print a line."""
    print(text)


def main() -> None:
    """Simulate some days, show what was learned, and that other agents cannot see it."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".demo-") as folder:
        path = Path(folder) / "team.db"
        with engram.open(path, say=say) as brain:
            alice = brain.agent("alice")
            done = []
            for day in range(1, DAYS + 1):
                news = ": the load balancer was replaced, which nobody told Alice" if day == CHANGE else ""
                title(f"Day {day}{news}")
                done.append(sum(task(alice, job, day) for job in JOBS))
            say(f"\n  tasks done of {len(JOBS)}, day by day: {', '.join(map(str, done))}")

            title("Alice takes notes")
            notes = [
                "The billing service sleeps at night and drops the first two logins after it wakes up.",
                "Invoices are sent on the first Monday of each month.",
                "The on-call phone is in the drawer below the coffee machine. Its password is hunter2-Zebra!",
            ]
            for note, receipt in zip(notes, alice.remember(notes, kind="knowledge"), strict=True):
                hidden = f"   (kept out: {', '.join(receipt.redacted)})" if receipt.redacted else ""
                say(f"  {receipt.status}: {note[:60]}…{hidden}")
            question = "why can nobody sign in early in the morning?"
            hit = alice.recall(question)[0]
            say(f"  asked {question!r}, she finds: {hit.text}")

            title("Bob looks into Alice's memory")
            bob, secret = brain.agent("bob"), alice.list(limit=1)[0].id
            say(f"  by id: {bob.get(secret)}   by search: {bob.recall(question)}   by list: {bob.list()}")

        title("The file is closed and opened again")
        with engram.open(path) as brain:
            alice = brain.agent("alice")
            for question in ("the billing API times out", "release build 2099 of the web shop", "bake a cake"):
                suggestion = alice.suggest(question)
                answer = suggestion.recommended or "no recommendation"
                say(f"  {question}: {answer} ({suggestion.reason})")
                for record in suggestion.actions[:1]:
                    explain(alice, record)


if __name__ == "__main__":
    main()
