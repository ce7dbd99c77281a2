"""Protocols for the parts of an agent that other modules use; `AgentHandle` implements all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from engram.model import Clean, Draft, FailurePattern, Memory, PreventionCheck, Recall, Receipt, Suggestion, Verdict
from engram.model.success import Synthesis

Memories = list[Memory]


class HasName(Protocol):
    """An agent with a name."""

    @property
    def name(self) -> str:
        """The agent's name."""
        ...


class ChecksActions(Protocol):
    """An agent that checks actions and records decisions."""

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
        """Record a decision, with its outcome if it is known."""
        ...


class Suggests(Protocol):
    """An agent that suggests actions."""

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


class ReportsOutcomes(Protocol):
    """An agent to which outcomes can be reported."""

    def outcome(
        self, id: str, outcome: str | float, *, used: Sequence[str] | None = None, correct: bool = False
    ) -> bool:
        """Report an outcome, and the memories of a recall that were used; `correct` replaces an earlier report."""
        ...


class RecallsMemories(Protocol):
    """An agent that recalls memories and learns from failures."""

    def recall(self, query: str, k: int = 5, *, expand: bool = False) -> Recall:
        """Recall the memories that answer a query; with `expand`, also those for related concepts."""
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
        """Learn from a failure and its solution."""
        ...


class CheckRun(Protocol):
    """The result of the command of a check."""

    @property
    def met(self) -> bool:
        """True if the condition holds."""
        ...

    @property
    def reason(self) -> str:
        """The reason, in words."""
        ...


class LearningMethods(Protocol):
    """The knowledge that an agent has learned."""

    def checks(self) -> list[PreventionCheck]:
        """List all prevention checks."""
        ...

    def run(self, name: str, *, allowed: bool, seconds: float) -> tuple[PreventionCheck, CheckRun]:
        """Run the command of a check."""
        ...

    def failure(self, name: str) -> FailurePattern | None:
        """Return the pattern of a failed decision."""
        ...

    def recognise(self, error: Clean, action: Clean) -> FailurePattern | None:
        """Return the pattern of an error."""
        ...

    def generate(self, pattern: str, *, stage: str, command: Sequence[str] | None) -> list[PreventionCheck]:
        """Create the checks that a failure suggests, for a stage."""
        ...

    def tried(self, pattern: str, solution: Any, helped: float) -> FailurePattern:
        """Record that a solution was tried, and how well it worked."""
        ...

    def synthesis(self) -> Synthesis:
        """Summarise repeated successes."""
        ...


class HasLearning(Protocol):
    """An agent with learned knowledge."""

    @property
    def learning(self) -> LearningMethods:
        """The knowledge that it has learned."""
        ...


class CycleAgent(HasName, RecallsMemories, Protocol):
    """The methods of an agent that its action cycles use."""

    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]:
        """Store several memories in one transaction."""
        ...


class ExecutorAgent(ChecksActions, Suggests, ReportsOutcomes, RecallsMemories, HasLearning, Protocol):
    """The methods of an agent that an executor uses."""


class WorkflowAgent(HasName, ChecksActions, Suggests, ReportsOutcomes, HasLearning, Protocol):
    """The methods of an agent that workflows use."""

    def list(self, *, limit: int = 50, kinds: str | Iterable[str] = (), session: str | None = None) -> Memories:
        """List the memories of a session, newest first."""
        ...
