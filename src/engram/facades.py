"""Convenience classes over the engine: `LearningEngine`, `EnhancedAgentMemory`, `WorkingMemory`, `LongTermMemory`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, overload

from pydantic import JsonValue

from engram import wiring
from engram.clock import Sources
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotFound
from engram.learning import events
from engram.learning.decisions.suggestions import DecisionEvaluator
from engram.learning.failures import signatures
from engram.learning.failures.recognizer import PatternRecognizer
from engram.learning.failures.signatures import ErrorSignature
from engram.learning.patterns.synthesis import KnowledgeSynthesizer
from engram.memories import working
from engram.memories.tags import KEY
from engram.memories.working import ABANDONED_TTL, TTL, Summarise, extract_summary
from engram.model import (
    Clean,
    FailurePattern,
    Memory,
    MemoryType,
    Origin,
    Prediction,
    PreventionCheck,
    Recall,
    Receipt,
    Suggestion,
)
from engram.model.content import ResultContent
from engram.model.episode import Handover, ToolCall, Turn
from engram.ports import Scope, Store, arguments
from engram.privacy import SecretRedactor

TOOL_CALL = "tool-call"
KEPT = 10
_MOST = 10_000
_PAGE = 500
_FIELD_ALIASES = {"name": "tool", "tool_name": "tool", "args": "arguments", "input": "arguments", "output": "result"}
"""Other names that are accepted for the fields of a tool call."""

Found = tuple[str, str, float]
"""A key, a text and its score."""


class LearningEngine:
    """The learning methods of all agents of one memory, with the agent as the first argument of each call."""

    def __init__(self, brain: Engram) -> None:
        self._brain = brain
        self.decision_evaluator = DecisionEvaluator()
        """Makes suggestions and predictions from past episodes."""
        self.knowledge_synthesizer = KnowledgeSynthesizer()
        """Derives success patterns, decision templates and pooled rates from episodes."""

    @property
    def memory_store(self) -> Store:
        """The store of the memory."""
        return self._brain.store

    def pattern_recognizer(self, agent_id: str) -> PatternRecognizer:
        """Return a copy of the recognizer of an agent's failures; it does not learn later failures."""
        with self._brain._parts.experience.of(Scope(self._agent(agent_id).name)) as learned:
            return PatternRecognizer.load(learned.recognizer.dump())

    def record_decision(
        self, agent_id: str, context: str, action_taken: str, outcome: str | float | None = None, **details: Any
    ) -> Receipt:
        """Record an action in a context and its outcome; `details` are those of `AgentHandle.record_decision`."""
        return self._agent(agent_id).record_decision(context=context, action=action_taken, outcome=outcome, **details)

    def learn_from_failure(
        self, agent_id: str, error: str | BaseException, solution: str = "", **details: Any
    ) -> FailurePattern:
        """Learn from a failure and its solution; `details` are those of `AgentHandle.learn_from_failure`."""
        return self._agent(agent_id).learn_from_failure(error, solution, **details)

    def retrieve_relevant_memories(self, agent_id: str, current_context: str, limit: int = 10) -> Recall:
        """Recall the memories that are relevant to a context, best first."""
        return self._agent(agent_id).recall(current_context, k=limit)

    def suggest(self, agent_id: str, context: str, actions: Sequence[str] | None = None, **details: Any) -> Suggestion:
        """Suggest an action for a context; `details` are those of `AgentHandle.suggest`."""
        return self._agent(agent_id).suggest(context=context, actions=actions, **details)

    def predict(self, agent_id: str, context: str, action: str, **details: Any) -> Prediction:
        """Predict how likely an action is to succeed in a context; `details` are those of `AgentHandle.predict`."""
        return self._agent(agent_id).predict(context=context, action=action, **details)

    def extract_error_signature(self, error: str | BaseException) -> ErrorSignature:
        """Extract what stays the same when a failure recurs, without variable values and secrets."""
        return signatures.extract_error_signature(self._clean(error))

    def find_similar_failures(self, agent_id: str, error: str | BaseException) -> list[FailurePattern]:
        """Return a list with the failure pattern that an error belongs to; empty if no similar failure is known."""
        pattern = self._agent(agent_id).learning.recognise(self._clean(error), Clean(""))
        return [] if pattern is None else [pattern]

    def generate_prevention_strategies(
        self, agent_id: str, failure: FailurePattern | str | BaseException
    ) -> list[PreventionCheck]:
        """Derive and store prevention checks for a failure, given by its pattern, name or error. Raises `NotFound`."""
        learning = self._agent(agent_id).learning
        if isinstance(failure, FailurePattern):
            return learning.generate(failure.pattern_id)
        named = learning.failure(failure) if isinstance(failure, str) else None
        pattern = named or learning.recognise(self._clean(failure), Clean(""))
        if pattern is None:
            raise NotFound("no such failure is known; record it with learn_from_failure first")
        return learning.generate(pattern.pattern_id)

    def _agent(self, agent_id: str) -> AgentHandle:
        return self._brain.agent(agent_id)

    def _clean(self, error: str | BaseException) -> Clean:
        text = events.error_text(error)
        if not text.strip():
            raise InvalidInput("the error is empty; give its text, or the exception itself")
        return self._brain.redactor.clean([text])[0].text


class WorkingMemory(working.WorkingMemory):
    """Working memory that opens its own store: in this process, or on the Redis server at `url`.

    `agent` owns the session. If it is an `AgentHandle`, turns are handed over to its long-term memory; if it is only a
    name, they are not.
    """

    def __init__(
        self,
        url: str = "",
        *,
        agent: AgentHandle | str = "agent",
        session: str = "main",
        ttl: float = TTL,
        capacity_tokens: int | None = None,
        summarise: Summarise = extract_summary,
        sources: Sources | None = None,
    ) -> None:
        sources = sources or Sources()
        store = wiring.open_working(url, sources)
        super().__init__(
            store,
            Scope(agent if isinstance(agent, str) else agent.name),
            redactor=SecretRedactor(),
            sources=sources,
            session=session,
            agent=None if isinstance(agent, str) else agent,
            ttl=ttl,
            capacity_tokens=capacity_tokens,
            summarise=summarise,
            closing=store.close,
        )


class LongTermMemory:
    """An agent's memories under keys that the caller chooses."""

    def __init__(self, agent: AgentHandle) -> None:
        self._agent = agent
        self._redactor = SecretRedactor()

    def add(self, key: str, value: str, meta: dict[str, Any] | None = None) -> None:
        """Store a text under a key; an earlier text is deleted once the new one is stored."""
        before = self._under(key)
        if before and before[0].text == value and meta is None:
            return
        rest = dict(meta or {})
        importance = weight(rest.pop("importance", 1))
        stored_id(self._agent.remember(value, tags=[KEY + key], importance=importance, metadata=rest))
        for memory in before:
            self._agent.forget(memory.id)

    def get(self, key: str) -> str | None:
        """Return the text under a key, or with this id; `None` if there is none."""
        memory = self._find(key)
        return None if memory is None else memory.text

    def search(self, query: str, top_k: int = 5, *, expand: bool = False) -> list[Found]:
        """Return the texts that answer a query, best first, each with its key, or its id if it has none, and its score.

        With `expand`, the search also includes concepts that the graph of facts links to those in the query.
        """
        hits = self._agent.recall(query, top_k, expand=expand)
        return [(key_of(hit.memory), hit.memory.text, hit.score) for hit in hits]

    def forget(self, key: str) -> bool:
        """Delete what is stored under a key or id; return `True` if there was anything."""
        under = self._under(key) or [memory for memory in [self._agent.get(key)] if memory is not None]
        receipts = [self._agent.forget(memory.id) for memory in under]
        return any(receipt.forgotten for receipt in receipts)

    @property
    def data(self) -> dict[str, str]:
        """All texts by their keys, oldest first."""
        return {key_of(memory): memory.text for memory in reversed(list(self._all()))}

    def _all(self) -> Iterator[Memory]:
        offset = 0
        while page := self._agent.list(limit=_PAGE, offset=offset):
            yield from page
            offset += _PAGE

    def _find(self, key: str) -> Memory | None:
        under = self._under(key)
        return under[0] if under else self._agent.get(key)

    def _under(self, key: str) -> list[Memory]:
        if not isinstance(key, str) or not key.strip():
            raise InvalidInput(f"a key is a non-empty text, not {key!r:.40}")
        if self._redactor.clean([key])[0].found:
            raise InvalidInput("this key contains a secret; use another one")
        return self._agent.list(tags=[KEY + key], limit=_MOST)


class ToolCalls(Sequence[ToolCall]):
    """Tool calls, oldest first. Appended calls are stored; calls cannot be changed or removed."""

    def __init__(self, fetch: Callable[[], list[ToolCall]], add: Callable[..., str]) -> None:
        self._fetch, self._add = fetch, add
        self._calls = fetch()

    def append(self, call: ToolCall | Mapping[str, Any] | str) -> None:
        """Store another call: a `ToolCall`, a mapping with `tool` and other fields, or the name of the tool."""
        given = {"tool": call} if isinstance(call, str) else call.model_dump() if isinstance(call, ToolCall) else call
        values = {_FIELD_ALIASES.get(name, name): value for name, value in dict(given).items()}
        tool = values.get("tool")
        if not isinstance(tool, str) or not tool.strip():
            raise InvalidInput("a tool call needs the name of its tool; append a mapping such as {'tool': 'search'}")
        fields = {name: values[name] for name in ("arguments", "result", "ok", "error") if values.get(name) is not None}
        self._add(tool, **fields)
        self._calls = self._fetch()

    @overload
    def __getitem__(self, index: int) -> ToolCall: ...

    @overload
    def __getitem__(self, index: slice) -> list[ToolCall]: ...

    def __getitem__(self, index: int | slice) -> ToolCall | list[ToolCall]:
        return self._calls[index]

    def __len__(self) -> int:
        return len(self._calls)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._calls == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._calls)


class EnhancedAgentMemory:
    """Working memory, long-term memory and semantic search in one object.

    `persistent` is `False`, `True` (the database of the settings), a path or a store's URL. With `vector=False` no
    embedding model is used and search matches words only. `working` is the URL of a Redis server for the session, like
    the setting; without one the session is kept in this process, and `close` hands it over to long-term memory. Every
    `prune_every` steps all turns but the last `keep` move from working memory to long-term memory.
    """

    def __init__(
        self,
        persistent: bool | str | Path | None = False,
        vector: bool = True,
        *,
        agent: str = "agent",
        session: str = "main",
        working: str | None = None,
        capacity_tokens: int | None = None,
        prune_every: int | None = None,
        keep: int = KEPT,
        summarise: Summarise = extract_summary,
        sources: Sources | None = None,
        **settings: Any,
    ) -> None:
        self._prune_every = None if prune_every is None else arguments.count("prune_every", prune_every, _MOST)
        self._keep, self._steps = arguments.count("keep", keep, _MOST, least=0), 0
        if not vector:
            settings["embedder"] = "hashing"
        if isinstance(persistent, int) and not isinstance(persistent, bool):
            raise InvalidInput(f"persistent is True, False, a path or the URL of a store, not {persistent!r}")
        db = None if persistent is True else persistent or ":memory:"
        sources = sources or Sources()
        with ExitStack() as stack:
            self._brain = stack.enter_context(wiring.open(db, sources=sources, working=working, **settings))
            self.agent = self._brain.agent(agent)
            """The agent, with all its other methods."""
            self.working = self.agent.working(
                session, ttl=ABANDONED_TTL, capacity_tokens=capacity_tokens, summarise=summarise
            )
            stack.pop_all()
        self.long_term = LongTermMemory(self.agent)
        self.vector = self.long_term if vector else None
        """The same memories as `long_term`, or `None` without a model: each is stored with its vector."""
        self.episodic = self.agent.episodic

    def add_experience(self, text: str, importance: float = 1) -> str:
        """Store a long-term memory and return its key. Importance has no upper limit: 1 is usual, 9 is rare."""
        return stored_id(self.agent.remember(text, importance=weight(importance)))

    def recall(self, query: str, k: int = 5, *, expand: bool = False) -> list[Found]:
        """Search long-term memory, best first: key, text and score in [0, 1]; `expand` includes related concepts."""
        return self.long_term.search(query, k, expand=expand)

    def add_message(self, role: str, content: str) -> Turn:
        """Add a turn of the conversation to working memory."""
        self._step()
        return self.working.add_message(role, content)

    def get_recent_messages(self, n: int = 10) -> str:
        """Return the last `n` turns, one per line, including those already handed over."""
        held = self.working.messages(n)
        missing = min(n - len(held), _MOST)
        stored = (
            self.agent.list(kinds=MemoryType.MESSAGE, session=self.working.session, limit=missing) if missing else []
        )
        shown = {(turn.at, turn.role, turn.content) for turn in held}  # a turn that is just handed over is in both
        stored = [memory for memory in stored if (memory.happened_at, memory.role, memory.text) not in shown]
        older = [f"{memory.role}: {memory.text}" for memory in reversed(stored) if memory.role]
        return "\n".join([*older, *map(str, held)])

    def create_summary(self) -> str:
        """Return a summary of this session; nothing is changed."""
        return self.working.create_summary()

    def prune(self) -> list[Handover]:
        """Move all turns but the last `keep` to long-term memory; return what was stored, oldest first."""
        return self.working.hand_over(self._keep)

    def add_tool_call(
        self,
        tool: str,
        arguments: JsonValue = None,
        result: JsonValue = "",
        *,
        ok: bool | None = None,
        error: str | None = None,
    ) -> str:
        """Store a tool call with its arguments and its result, and return its key.

        The origin is `tool`, so a result that reads like an instruction to the agent is quarantined for review.
        """
        output = result if isinstance(result, str) else in_json("the result", result)
        given = "" if arguments is None else f" {in_json('the arguments', arguments)}"
        content = {name: value for name, value in {"ok": ok, "error": error}.items() if value is not None}
        self._step()
        return stored_id(
            self.agent.remember(
                output if output.strip() else f"{tool} gave nothing",
                kind=MemoryType.RESULT,
                context=tool + given,
                content=content,
                metadata={"tool": tool, "arguments": arguments, "empty": not output.strip()},
                tags=[TOOL_CALL],
                session=self.working.session,
                origin=Origin.TOOL,
            )
        )

    @property
    def tool_call_history(self) -> ToolCalls:
        """The last 10,000 tool calls of this session, oldest first; `append` stores another one.

        Quarantined calls are left out.
        """
        return ToolCalls(self._tool_calls, self.add_tool_call)

    def forget(self, key: str) -> bool:
        """Delete a memory and everything that belongs to it; return `True` if there was one."""
        return self.long_term.forget(key)

    def close(self) -> None:
        """Hand over a session kept in this process, and close the memory; closing it again does nothing."""
        self._brain.close()

    def __enter__(self) -> EnhancedAgentMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tool_calls(self) -> list[ToolCall]:
        found = self.agent.list(kinds=MemoryType.RESULT, tags=[TOOL_CALL], session=self.working.session, limit=_MOST)
        return [tool_call(memory) for memory in reversed(found)]

    def _step(self) -> None:
        self._steps += 1
        if self._prune_every is not None and self._steps % self._prune_every == 0:
            self.prune()


def weight(importance: float) -> float:
    """Map an importance from 0 on to the range 0 to 1, monotonically; 1 becomes 0.5, the default importance."""
    if isinstance(importance, bool) or not isinstance(importance, int | float) or not 0 <= importance < 10**9:
        raise InvalidInput(f"importance must be a number from 0 up, not {importance!r}")
    return importance / (importance + 1)


def in_json(name: str, value: JsonValue) -> str:
    """Return a value as JSON. Raises `InvalidInput` for a value that JSON cannot represent."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} cannot be stored: {error}; pass a text or plain JSON") from None


def stored_id(receipt: Receipt) -> str:
    """Return the id of a stored memory. Raises `InvalidInput` if it was not stored."""
    if receipt.id is None:
        raise InvalidInput(f"it was not stored: {receipt.reason}")
    return receipt.id


def key_of(memory: Memory) -> str:
    """Return the key of a memory, or its id if it has none."""
    return next((tag.removeprefix(KEY) for tag in memory.tags if tag.startswith(KEY)), memory.id)


def tool_call(memory: Memory) -> ToolCall:
    """Return the tool call that a memory stores."""
    result = memory.content if isinstance(memory.content, ResultContent) else ResultContent()
    return ToolCall(
        id=memory.id,
        at=memory.at,
        tool=str(memory.metadata.get("tool", "")),
        arguments=memory.metadata.get("arguments"),
        result=Clean("") if memory.metadata.get("empty") else memory.text,
        ok=result.ok,
        error=result.error,
    )
