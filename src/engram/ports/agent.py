"""The agent, as far as each part of its life needs it; the engine's handle is all of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from engram.model import Clean, Draft, FailurePattern, Memory, PreventionCheck, Recall, Receipt, Suggestion, Verdict
from engram.model.success import Synthesis

Memories = list[Memory]


class Named(Protocol):
    """Somebody with a name."""

    @property
    def name(self) -> str:
        """The agent's name."""
        ...


class Checks(Protocol):
    """Says whether an action may go ahead, and remembers how it went."""

    def check(
        self,
        *,
        action: str,
        context: str = "",
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
    ) -> Verdict:
        """Check an action against known failures and prevention checks."""
        ...

    def record_decision(
        self,
        /,
        *,
        context: str,
        action: str,
        outcome: str | float | None = None,
        alternatives: Sequence[str] = (),
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        error: str | BaseException = "",
        duration: float | None = None,
        informed_by: str | Sequence[str] = (),
        **fields: Any,
    ) -> Receipt:
        """Remember what was done and how it went."""
        ...


class Suggests(Protocol):
    """Says what to do."""

    def suggest(
        self,
        *,
        context: str,
        actions: Sequence[str] | None = None,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
    ) -> Suggestion:
        """Suggest an action for a context."""
        ...


class Hears(Protocol):
    """Is told what became of a decision or of a recall."""

    def outcome(
        self, id: str, outcome: str | float, *, used: Sequence[str] | None = None, correct: bool = False
    ) -> bool:
        """Tell how it went, and which memories of a recall were used; `correct` takes back what was told before."""
        ...


class Recalls(Protocol):
    """Finds what it remembers, and learns from what went wrong."""

    def recall(self, query: str, k: int = 5, *, expand: bool = False) -> Recall:
        """The memories that answer a query; with `expand`, also the query with related concepts."""
        ...

    def learn_from_failure(
        self,
        error: str | BaseException,
        solution: str = "",
        *,
        helped: bool | float | None = None,
        action: str = "",
        context: str = "",
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        **fields: Any,
    ) -> FailurePattern:
        """Learn what went wrong, and what was done about it."""
        ...


class Ran(Protocol):
    """The result of the command of a check."""

    @property
    def met(self) -> bool:
        """True if the condition holds."""
        ...

    @property
    def reason(self) -> str:
        """The reason, in words."""
        ...


class Learns(Protocol):
    """The knowledge that an agent has learned."""

    def checks(self) -> list[PreventionCheck]:
        """All prevention checks."""
        ...

    def run(self, name: str, *, allowed: bool, seconds: float) -> tuple[PreventionCheck, Ran]:
        """Run the command of a check."""
        ...

    def failure(self, name: str) -> FailurePattern | None:
        """The pattern that a failed decision belongs to."""
        ...

    def recognise(self, error: Clean, action: Clean) -> FailurePattern | None:
        """The pattern that an error belongs to."""
        ...

    def generate(self, pattern: str, *, stage: str, command: Sequence[str] | None) -> list[PreventionCheck]:
        """Keep the checks that a failure suggests, before a stage."""
        ...

    def tried(self, pattern: str, solution: Any, helped: float) -> FailurePattern:
        """Learn how a solution did."""
        ...

    def synthesis(self) -> Synthesis:
        """Summarise repeated successes."""
        ...


class Learned(Protocol):
    """Has learned something."""

    @property
    def learning(self) -> Learns:
        """The knowledge that it has learned."""
        ...


class Lives(Named, Recalls, Protocol):
    """The agent, as far as its cycles need it."""

    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]:
        """Remember several things in one transaction."""
        ...


class Remembers(Checks, Suggests, Hears, Recalls, Learned, Protocol):
    """The agent, as far as an executor needs it."""


class Works(Named, Checks, Suggests, Hears, Learned, Protocol):
    """The agent, as far as workflows need it."""

    def list(self, *, limit: int = 50, kinds: str | Iterable[str] = (), session: str | None = None) -> Memories:
        """The memories of a session, newest first."""
        ...
