"""The learning engine says what the agents themselves say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import engram
from engram.errors import InvalidInput, NotFound

CONTEXT = "api-auth-timeout"


@pytest.fixture
def engine() -> Iterator[engram.LearningEngine]:
    with engram.open(":memory:", embedder="hashing") as brain:
        yield engram.LearningEngine(brain)


def test_decisions_are_recorded_and_lead_to_suggestions_and_predictions(engine: engram.LearningEngine) -> None:
    for _ in range(8):
        receipt = engine.record_decision("alice", CONTEXT, "retry-with-backoff", "success", environment="ci")
        engine.record_decision("alice", CONTEXT, "increase-timeout", "failure", alternatives=["give up"])
    assert receipt.status == "stored"
    assert engine.suggest("alice", CONTEXT).recommended == "retry-with-backoff"
    good = engine.predict("alice", CONTEXT, "retry-with-backoff").probability
    assert good > engine.predict("alice", CONTEXT, "increase-timeout", environment="ci").probability
    assert engine.suggest("bob", CONTEXT).abstained


def test_memories_of_one_agent_are_retrieved_up_to_a_limit(engine: engram.LearningEngine) -> None:
    for number in range(12):
        engine.record_decision("alice", f"{CONTEXT} {number}", "retry", "success")
    assert len(engine.retrieve_relevant_memories("alice", CONTEXT)) == 10
    assert len(engine.retrieve_relevant_memories("alice", CONTEXT, limit=3)) == 3
    assert engine.retrieve_relevant_memories("bob", CONTEXT) == []


def test_a_failure_is_learned_from_found_again_and_prevented(engine: engram.LearningEngine) -> None:
    pattern = engine.learn_from_failure(
        "alice", TimeoutError("no answer in 30 s"), "raise the timeout", action="log in", context=CONTEXT
    )
    again = TimeoutError("no answer in 45 s")
    assert [one.pattern_id for one in engine.find_similar_failures("alice", again)] == [pattern.pattern_id]
    assert engine.find_similar_failures("alice", "ValueError: a negative price") == []
    assert engine.find_similar_failures("bob", again) == []
    for failure in (pattern, pattern.name, again):
        (check,) = engine.generate_prevention_strategies("alice", failure)
        assert (check.pattern_id, "Raise the timeout" in check.verify) == (pattern.pattern_id, True)
    with pytest.raises(NotFound):
        engine.generate_prevention_strategies("alice", "ValueError: a negative price")


def test_a_signature_has_neither_values_nor_secrets(engine: engram.LearningEngine) -> None:
    error = "ConnectionError: cannot log in to postgres://bob:hunter2hunter2@db.example/main after 30 s"
    signature = engine.extract_error_signature(error)
    assert signature.kind == "ConnectionError"
    assert "hunter2" not in signature.text
    assert signature.key == engine.extract_error_signature(error.replace("30 s", "45 s")).key
    with pytest.raises(InvalidInput, match="empty"):
        engine.extract_error_signature(" ")


def test_its_parts_can_be_reached(engine: engram.LearningEngine) -> None:
    engine.learn_from_failure("alice", "TimeoutError: no answer", "raise the timeout")
    recognizer = engine.pattern_recognizer("alice")
    assert [pattern.kind for pattern in recognizer.patterns()] == ["TimeoutError"]
    engine.learn_from_failure("alice", "ValueError: a negative price")
    assert len(recognizer.patterns()) == 1
    assert engine.pattern_recognizer("bob").patterns() == []
    assert engine.decision_evaluator.evaluate_outcome("partial") == 0.5
    assert engine.knowledge_synthesizer.synthesize([]).patterns == ()
    assert callable(engine.memory_store.search)


def test_everything_a_user_meets_is_exported() -> None:
    assert [name for name in engram.__all__ if not hasattr(engram, name)] == []
    assert issubclass(engram.ActionBlocked, engram.EngramError)
