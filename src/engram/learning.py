"""The learning engine: record, learn, retrieve and predict for any agent by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotFound
from engram.learn import happened, signatures
from engram.learn.decisions import DecisionEvaluator
from engram.learn.failures import PatternRecognizer
from engram.learn.signatures import ErrorSignature
from engram.learn.synthesis import KnowledgeSynthesizer
from engram.model import Clean, FailurePattern, Prediction, PreventionCheck, Recall, Receipt, Suggestion
from engram.ports import MemoryStore, Scope


class LearningEngine:
    """The learning of all agents of one memory: the same as theirs, with the agent named in each call."""

    def __init__(self, brain: Engram) -> None:
        self._brain = brain
        self.decision_evaluator = DecisionEvaluator()
        """Weighs episodes into suggestions and predictions."""
        self.knowledge_synthesizer = KnowledgeSynthesizer()
        """Turns episodes into success patterns, decision templates and pooled rates."""

    @property
    def memory_store(self) -> MemoryStore:
        """Where everything is kept."""
        return self._brain.store

    def pattern_recognizer(self, agent_id: str) -> PatternRecognizer:
        """What knows the failures of an agent: a copy, which learns nothing new."""
        with self._brain.experience.of(Scope(self._agent(agent_id).name)) as learned:
            return PatternRecognizer.load(learned.recognizer.dump())

    def record_decision(
        self, agent_id: str, context: str, action_taken: str, outcome: str | float | None = None, **details: Any
    ) -> Receipt:
        """Remember what was done in a context and how it went; `details` are those of `AgentHandle.record_decision`."""
        return self._agent(agent_id).record_decision(context=context, action=action_taken, outcome=outcome, **details)

    def learn_from_failure(
        self, agent_id: str, error: str | BaseException, solution: str = "", **details: Any
    ) -> FailurePattern:
        """Learn what went wrong and what was done about it; `details` are those of `AgentHandle.learn_from_failure`."""
        return self._agent(agent_id).learn_from_failure(error, solution, **details)

    def retrieve_relevant_memories(self, agent_id: str, current_context: str, limit: int = 10) -> Recall:
        """The memories that matter in a context, best first."""
        return self._agent(agent_id).recall(current_context, k=limit)

    def suggest(self, agent_id: str, context: str, actions: Sequence[str] | None = None, **details: Any) -> Suggestion:
        """What to do in a context; `details` are those of `AgentHandle.suggest`."""
        return self._agent(agent_id).suggest(context=context, actions=actions, **details)

    def predict(self, agent_id: str, context: str, action: str, **details: Any) -> Prediction:
        """How likely an action is to succeed in a context; `details` are those of `AgentHandle.predict`."""
        return self._agent(agent_id).predict(context=context, action=action, **details)

    def extract_error_signature(self, error: str | BaseException) -> ErrorSignature:
        """What stays the same when a failure happens again, without its values and secrets."""
        return signatures.extract_error_signature(self._clean(error))

    def find_similar_failures(self, agent_id: str, error: str | BaseException) -> list[FailurePattern]:
        """The failure pattern that an error belongs to; none if nothing like it was seen."""
        pattern = self._agent(agent_id).learning.recognise(self._clean(error), Clean(""))
        return [] if pattern is None else [pattern]

    def generate_prevention_strategies(
        self, agent_id: str, failure: FailurePattern | str | BaseException
    ) -> list[PreventionCheck]:
        """Make and keep the checks that a failure suggests: its pattern, its name or its error. Raises `NotFound`."""
        learning = self._agent(agent_id).learning
        if isinstance(failure, FailurePattern):
            return learning.generate(failure.pattern_id)
        named = learning.failure(failure) if isinstance(failure, str) else None
        pattern = named or learning.recognise(self._clean(failure), Clean(""))
        if pattern is None:
            raise NotFound("no such failure was seen; tell of it by learn_from_failure first")
        return learning.generate(pattern.pattern_id)

    def _agent(self, agent_id: str) -> AgentHandle:
        return self._brain.agent(agent_id)

    def _clean(self, error: str | BaseException) -> Clean:
        text = happened.error_text(error)
        if not text.strip():
            raise InvalidInput("the error is empty; give its text, or the exception itself")
        return self._brain.redactor.clean([text])[0].text
