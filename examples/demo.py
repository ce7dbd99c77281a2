"""An agent fails, records it, avoids the failure the next time, and explains why. Run it with `make demo`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import engram
from engram.model import ActionRecord

TASK = "login to the billing API times out under load"
STRATEGIES = ["increase-timeout", "retry-with-backoff", "restart-service"]


class BillingApi:
    """The world: a service that drops the first logins after each wake-up, however long one waits."""

    def __init__(self) -> None:
        self._dropping = 0

    def wake(self) -> None:
        """Start dropping logins again."""
        self._dropping = 2

    def login(self, patience: float) -> None:
        """Log in, or raise TimeoutError."""
        if self._dropping > 0:
            self._dropping -= 1
            raise TimeoutError(f"login timed out after {patience:.2f} s")


def increase_timeout(api: BillingApi) -> None:
    """Wait longer, once."""
    api.login(patience=30)


def retry_with_backoff(api: BillingApi) -> None:
    """Try again, after longer and longer pauses."""
    for attempt in range(4):
        try:
            return api.login(patience=1)
        except TimeoutError:
            time.sleep(0.05 * 2**attempt)
    return api.login(patience=1)


def restart_service(api: BillingApi) -> None:
    """Make everything worse."""
    api.wake()
    api.login(patience=1)


TOOLS: dict[str, Callable[[BillingApi], None]] = {
    "increase-timeout": increase_timeout,
    "retry-with-backoff": retry_with_backoff,
    "restart-service": restart_service,
}


def attempt(agent: engram.AgentHandle, api: BillingApi, day: int) -> None:
    """Ask the memory, act, and tell the memory how it went."""
    suggestion = agent.suggest(context=TASK, actions=STRATEGIES)
    tried = {record.action for record in suggestion.actions if record.attempts}
    untried = next(strategy for strategy in STRATEGIES if strategy not in tried)
    action = suggestion.recommended or untried
    title(f"Day {day}: {TASK}")
    why = suggestion.reason if suggestion.recommended else f"no recommendation ({suggestion.reason}), so something new"
    say(f"{agent.name} chooses {action}: {why}")
    for record in suggestion.actions:
        if record.attempts:
            say(f"    {describe(record)}")
    api.wake()
    try:
        TOOLS[action](api)
        outcome, detail = "success", "logged in"
    except TimeoutError as error:
        outcome, detail = "failure", str(error)
    receipt = agent.record_decision(
        context=TASK, action=action, outcome=outcome, alternatives=[s for s in STRATEGIES if s != action]
    )
    say(f"it was a {outcome}: {detail}   (recorded as {receipt.id})")


def describe(record: ActionRecord) -> str:
    """One line about an action: its rate, how sure that is, and the evidence."""
    low, high = record.interval
    times = "1 attempt" if record.attempts == 1 else f"{record.attempts} attempts"
    return f"{record.action}: {record.success_rate:.0%} success rate, {times}, 95% interval {low:.0%} to {high:.0%}"


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def say(text: str) -> None:
    """Print a line."""
    print(f"  {text}")


def main() -> None:
    """Two agents, one file, a few days."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".demo-") as folder:
        path = Path(folder) / "team.db"
        with engram.open(path, say=say) as brain:
            alice, bob = brain.agent("alice"), brain.agent("bob")
            api = BillingApi()
            for day in range(1, 6):
                attempt(alice, api, day)

            title("Alice takes notes")
            notes = [
                "The billing service sleeps at night and drops the first two logins after it wakes up.",
                "Invoices are sent on the first Monday of each month.",
                "Staging runs PostgreSQL 15, production still runs 13.",
                "The on-call phone is in the drawer below the coffee machine. Its password is hunter2-Zebra!",
            ]
            for note, receipt in zip(notes, alice.remember(notes, kind="knowledge"), strict=True):
                hidden = f"   (kept out: {', '.join(receipt.redacted)})" if receipt.redacted else ""
                say(f"{receipt.status}: {note[:60]}…{hidden}")
            say(f"what was kept of the last: {alice.list(limit=1)[0].text}")

            question = "why can nobody sign in early in the morning?"
            title(f"Alice asks: {question}")
            for hit in alice.recall(question, k=3):
                parts = ", ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in hit.why.items())
                say(f"{hit.score:.2f}  {hit.memory.text[:74]}   ({parts})")

            title("Bob looks into Alice's memory")
            secret = alice.list(limit=1)[0].id
            say(f"by id: {bob.get(secret)}   by search: {bob.recall(question)}   by list: {bob.list()}")
            say(f"a suggestion from her experience: {bob.suggest(context=TASK).reason}")

        title("The file is closed and opened again")
        with engram.open(path) as brain:
            suggestion = brain.agent("alice").suggest(context=TASK)
            say(f"alice has {len(brain.agent('alice').list())} memories in {path.stat().st_size / 1024:.0f} kB")
            say(f"recommended: {suggestion.recommended} ({suggestion.reason}), because of these episodes:")
            for episode in suggestion.actions[0].episodes_for:
                memory = brain.agent("alice").get(episode)
                say(f"    {episode}  {memory.text if memory else ''}")


if __name__ == "__main__":
    main()
