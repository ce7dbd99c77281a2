"""Wrap the engine in the classes of the seed documents: `LearningEngine` and `EnhancedAgentMemory`."""

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
_SAID = {"name": "tool", "tool_name": "tool", "args": "arguments", "input": "arguments", "output": "result"}
"""Other names for what is known of a tool call."""

Found = tuple[str, str, float]
"""A key, a text, and how well it fits."""


class LearningEngine:
    """The learning of all agents of one memory: the same as theirs, with the agent named in each call."""

    def __init__(self, brain: Engram) -> None:
        self._brain = brain
        self.decision_evaluator = DecisionEvaluator()
        """Weighs episodes into suggestions and predictions."""
        self.knowledge_synthesizer = KnowledgeSynthesizer()
        """Turns episodes into success patterns, decision templates and pooled rates."""

    @property
    def memory_store(self) -> Store:
        """Where everything is kept."""
        return self._brain.store

    def pattern_recognizer(self, agent_id: str) -> PatternRecognizer:
        """What knows the failures of an agent: a copy, which learns nothing new."""
        with self._brain._parts.experience.of(Scope(self._agent(agent_id).name)) as learned:
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
        text = events.error_text(error)
        if not text.strip():
            raise InvalidInput("the error is empty; give its text, or the exception itself")
        return self._brain.redactor.clean([text])[0].text


class WorkingMemory(working.WorkingMemory):
    """Working memory that opens its own store: in this process, or on the Redis that a URL names (seed 003).

    `agent` is the agent whose session it is; one that is open takes what is handed over, a name alone does not.
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
    """An agent's memories by keys of the caller's choice: the four methods of a store (seed 002)."""

    def __init__(self, agent: AgentHandle) -> None:
        self._agent = agent
        self._redactor = SecretRedactor()

    def add(self, key: str, value: str, meta: dict[str, Any] | None = None) -> None:
        """Remember a text under a key; what was there is replaced, once the new text is kept."""
        before = self._under(key)
        if before and before[0].text == value and meta is None:
            return
        rest = dict(meta or {})
        importance = weight(rest.pop("importance", 1))
        kept(self._agent.remember(value, tags=[KEY + key], importance=importance, metadata=rest))
        for memory in before:
            self._agent.forget(memory.id)

    def get(self, key: str) -> str | None:
        """The text under a key, or with this id; `None` if there is none."""
        memory = self._find(key)
        return None if memory is None else memory.text

    def search(self, query: str, top_k: int = 5, *, expand: bool = False) -> list[Found]:
        """The texts that answer a query, best first, each with its key, or its id if it has none, and its score.

        With `expand`, the query is also asked with the concepts that the graph of facts joins to those it names.
        """
        hits = self._agent.recall(query, top_k, expand=expand)
        return [(key_of(hit.memory), hit.memory.text, hit.score) for hit in hits]

    def forget(self, key: str) -> bool:
        """Remove what is under a key, or has this id; whether there was anything."""
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
            raise InvalidInput(f"a key is a text, not {key!r:.40}")
        if self._redactor.clean([key])[0].found:
            raise InvalidInput("this key holds a secret; choose another one")
        return self._agent.list(tags=[KEY + key], limit=_MOST)


class ToolCalls(Sequence[ToolCall]):
    """Tool calls in their order. What is appended is remembered; nothing is changed or taken out."""

    def __init__(self, fetch: Callable[[], list[ToolCall]], add: Callable[..., str]) -> None:
        self._fetch, self._add = fetch, add
        self._calls = fetch()

    def append(self, call: ToolCall | Mapping[str, Any] | str) -> None:
        """Remember one more: a call, a mapping with `tool` and what else is known of it, or the name of the tool."""
        known = {"tool": call} if isinstance(call, str) else call.model_dump() if isinstance(call, ToolCall) else call
        told = {_SAID.get(name, name): value for name, value in dict(known).items()}
        tool = told.get("tool")
        if not isinstance(tool, str) or not tool.strip():
            raise InvalidInput("a tool call needs the name of its tool; append a mapping such as {'tool': 'search'}")
        fields = {name: told[name] for name in ("arguments", "result", "ok", "error") if told.get(name) is not None}
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
    """Working memory, long-term memory and semantic search behind one object (seed 002).

    `persistent` is no, yes (where the settings say), a path or a store's URL. `vector=False` does without a model: what
    is found shares words. `working` names a Redis for the session, as the setting does; without one it lives in this
    process, and `close` hands it over. Every `prune_every` steps all turns but the last `keep` leave working memory for
    long-term memory.
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
            raise InvalidInput(f"persistent is yes, no, a path or the URL of a store, not {persistent!r}")
        where = None if persistent is True else persistent or ":memory:"
        sources = sources or Sources()
        with ExitStack() as stack:
            self._brain = stack.enter_context(wiring.open(where, sources=sources, working=working, **settings))
            self.agent = self._brain.agent(agent)
            """Everything else that the agent can do: decide, check, learn."""
            self.working = self.agent.working(
                session, ttl=ABANDONED_TTL, capacity_tokens=capacity_tokens, summarise=summarise
            )
            stack.pop_all()
        self.long_term = LongTermMemory(self.agent)
        self.vector = self.long_term if vector else None
        """The same memories: each is kept with its vector, in one transaction."""
        self.episodic = self.agent.episodic

    def add_experience(self, text: str, importance: float = 1) -> str:
        """Remember something for long; its key. Importance has no upper end: 1 is usual, 9 is rare."""
        return kept(self.agent.remember(text, importance=weight(importance)))

    def recall(self, query: str, k: int = 5, *, expand: bool = False) -> list[Found]:
        """What answers a query, best first: key, text and score in [0, 1]; with `expand`, also by related concepts."""
        return self.long_term.search(query, k, expand=expand)

    def add_message(self, role: str, content: str) -> Turn:
        """Keep one turn of the conversation in mind."""
        self._step()
        return self.working.add_message(role, content)

    def get_recent_messages(self, n: int = 10) -> str:
        """The last `n` turns, one a line, also those that were handed over."""
        held = self.working.messages(n)
        missing = min(n - len(held), _MOST)
        left = self.agent.list(kinds=MemoryType.MESSAGE, session=self.working.session, limit=missing) if missing else []
        told = {(turn.at, turn.role, turn.content) for turn in held}  # some may just be leaving
        left = [memory for memory in left if (memory.happened_at, memory.role, memory.text) not in told]
        older = [f"{memory.role}: {memory.text}" for memory in reversed(left) if memory.role]
        return "\n".join([*older, *map(str, held)])

    def create_summary(self) -> str:
        """What was said in this session, in short; nothing is changed."""
        return self.working.create_summary()

    def prune(self) -> list[Handover]:
        """Hand over all turns but the last `keep`; what was written, oldest first."""
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
        """Remember what a tool was given and what came back; its key.

        It is the tool's word, not the agent's: what gives the agent orders is set apart for review.
        """
        said = result if isinstance(result, str) else in_json("the result", result)
        given = "" if arguments is None else f" {in_json('what it was given', arguments)}"
        content = {name: value for name, value in {"ok": ok, "error": error}.items() if value is not None}
        self._step()
        return kept(
            self.agent.remember(
                said if said.strip() else f"{tool} gave nothing",
                kind=MemoryType.RESULT,
                context=tool + given,
                content=content,
                metadata={"tool": tool, "arguments": arguments, "empty": not said.strip()},
                tags=[TOOL_CALL],
                session=self.working.session,
                origin=Origin.TOOL,
            )
        )

    @property
    def tool_call_history(self) -> ToolCalls:
        """The tool calls of this session, oldest first, up to the last 10,000; `append` remembers one more.

        One that was set apart for review is not among them.
        """
        return ToolCalls(self._tool_calls, self.add_tool_call)

    def forget(self, key: str) -> bool:
        """Remove a memory and all that belongs to it; whether there was one."""
        return self.long_term.forget(key)

    def close(self) -> None:
        """Hand over what would be lost and let go of everything; calling it twice is harmless."""
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
    """Importance without an upper end as a share: 1 is a half, as for everything else, and more is more."""
    if isinstance(importance, bool) or not isinstance(importance, int | float) or not 0 <= importance < 10**9:
        raise InvalidInput(f"importance must be a number from 0 on, not {importance!r}")
    return importance / (importance + 1)


def in_json(what: str, value: JsonValue) -> str:
    """A value as JSON. Raises `InvalidInput` for what JSON cannot say."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be kept: {error}; give a text, or plain JSON") from None


def kept(receipt: Receipt) -> str:
    """The id of what was remembered. Raises `InvalidInput` if it was not."""
    if receipt.id is None:
        raise InvalidInput(f"it was not remembered: {receipt.reason}")
    return receipt.id


def key_of(memory: Memory) -> str:
    """The key that a memory was given, or else its id."""
    return next((tag.removeprefix(KEY) for tag in memory.tags if tag.startswith(KEY)), memory.id)


def tool_call(memory: Memory) -> ToolCall:
    """The tool call that a memory tells of."""
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
