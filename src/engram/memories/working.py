"""Working memory: the values and latest turns of a session, which expire.

When there are too many turns, the oldest are handed over: stored verbatim in long-term memory with a summary that names
them, and then dropped. An interrupted handover is completed by the next one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import takewhile
from types import TracebackType
from typing import Protocol, Self, TypedDict, TypeVar, runtime_checkable
from urllib.parse import quote

from pydantic import JsonValue, TypeAdapter, ValidationError

from engram.clock import Sources, micros
from engram.errors import Conflict, InvalidInput, StoreClosed, StoreCorrupt
from engram.memories.summaries import Utterance, summarise
from engram.model import Draft, Memory, MemoryType, Origin, Receipt, describe_error
from engram.model.bundle import MAX_LABEL, MAX_TEXT
from engram.model.clean import Clean
from engram.model.episode import Handover, Turn
from engram.ports import ClearsSessions, ExpiringStore, Redactor, Scope, Volatile, arguments, unstorable
from engram.privacy import clean_json
from engram.recall.pack import tokens
from engram.recording.input import MAX_TAGS, handle
from engram.text.terms import digest

CAPACITY = 8_000
TTL = 3_600.0
ABANDONED_TTL = 30 * 24 * 3_600.0
"""Seconds that a store keeps turns of a session that is not continued."""
SHARE_AFTER_HANDOVER = 0.5
"""Share of the capacity that remains in use after a handover, so that handovers are neither tiny nor frequent."""
_MAX_HANDOVER = MAX_TAGS - 1
"""Maximum turns of a handover: a memory can name that many sources, besides the previous summary."""
TOOL = "tool"
"""Role of turns that are not the agent's own words; summaries that include them are not either."""
_CACHED_NAMES = 4_096
_PAGE = 200
_EMPTY = Clean("")
_log = logging.getLogger("engram")

T = TypeVar("T")
Memories = list[Memory]

Summarise = Callable[[Sequence[Turn], str], str]
"""A function that summarises turns, given the summary of the turns before."""


class HandoverAgent(Protocol):
    """The method of an agent that a handover needs."""

    def remember(self, text: Sequence[Draft], /) -> list[Receipt]:
        """Store drafts in one transaction; the receipts are returned after the commit, in order."""
        ...


@runtime_checkable
class SessionHistory(Protocol):
    """An agent that can list what was handed over before."""

    def list(self, *, limit: int, kinds: str, session: str) -> Memories:
        """Return the memories of a kind in a session, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class _Index:
    """Positions of a session's turns: numbers from `first` to before `next`; numbers are never reused."""

    first: int = 0
    next: int = 0
    size: int = 0
    """Tokens of all turns."""
    since: int = 0
    """Time of the oldest turn, or earlier, in microseconds."""
    last: int = 0
    """Time of the newest turn."""
    leaving: int = 0
    """Number of the first turns that are being handed over."""
    planned: Clean = _EMPTY
    """Summary of those turns; stored before the handover, so that it is the same after an interruption."""
    summary: Clean = _EMPTY
    summary_id: str | None = None
    tool: bool = False
    """True if the summary may contain output of tools."""


_index: TypeAdapter[_Index] = TypeAdapter(_Index)
_turn: TypeAdapter[Turn] = TypeAdapter(Turn)


def extract_summary(turns: Sequence[Turn], before: str) -> str:
    """Summarise turns and the previous summary by their most informative sentences."""
    return summarise([Utterance("", before), *(Utterance(turn.role, turn.content) for turn in turns)])


class WorkingMemory:
    """One session of an agent. Threads may share it, processes may not.

    `agent` stores what is handed over: the oldest turns when the capacity is exceeded, and all of them when a turn
    follows a pause of `ttl` seconds. Without one, there is no capacity and each turn expires after `ttl`. Everything is
    redacted. It is a context manager; `closing` is called when it is closed.
    """

    def __init__(
        self,
        store: ExpiringStore,
        scope: Scope,
        *,
        redactor: Redactor,
        sources: Sources,
        session: str = "main",
        agent: HandoverAgent | None = None,
        ttl: float = TTL,
        capacity_tokens: int | None = None,
        summarise: Summarise = extract_summary,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        if capacity_tokens is not None:
            arguments.count("capacity_tokens", capacity_tokens, most=10**9)
            if agent is None:
                raise InvalidInput("a capacity needs an `agent` that stores the turns beyond it")
        self._backend, self._scope = store, scope
        self._closing, self._closed = closing, False
        self._redactor, self._sources = redactor, sources
        self._agent, self._summarise = agent, summarise
        self._ttl, self._capacity = _check_ttl(ttl), capacity_tokens or CAPACITY
        self._lifetime = self._ttl if agent is None else 2 * max(ABANDONED_TTL, self._ttl)
        self.session = handle(redactor, _check_label("session", session)).text
        _check_label("session", self.session)
        self._prefix = quote(self.session, safe="")
        self._value_key = lru_cache(_CACHED_NAMES)(self._make_value_key)
        self._lock = threading.RLock()

    def set(self, key: str, value: JsonValue, ttl: float = TTL) -> None:
        """Store a value for `ttl` seconds, replacing any earlier one."""
        cleaned, _ = clean_json(self._redactor, value)
        self._store.put(self._scope, {self._value_key(key): cleaned}, ttl)

    def get(self, key: str) -> JsonValue:
        """Return the value of a key; `None` if it is missing or expired."""
        return self._store.fetch(self._scope, [self._value_key(key)])[0]

    def delete(self, key: str) -> bool:
        """Remove a value; returns true if it existed."""
        return self._store.drop(self._scope, [self._value_key(key)]) > 0

    def add_message(self, role: str, content: str, *, speaker: str | None = None) -> Turn:
        """Add a turn, after handing over the oldest ones if the capacity is exceeded.

        If the handover fails, the turn is not added, so that it can be added again.
        """
        turn = self._turn(role, content, speaker)
        size = _size(turn)
        with self._lock:
            index = self._recover()
            index = (
                self._without_expired(index)
                if self._agent is None
                else self._hand_over_first(index, self._turns_to_hand_over(index, size))[0]
            )
            place = self._turn_key(index.next)
            now = micros(turn.at)
            since = index.since if index.next > index.first else now
            index = replace(index, next=index.next + 1, size=index.size + size, since=since, last=now)
            self._write(index, {place: turn.model_dump(mode="json")})
        return turn

    def messages(self, n: int | None = None) -> list[Turn]:
        """Return the last `n` turns, or all, oldest first."""
        if n is not None:
            arguments.count("n", n, most=10**9, least=0)
        index = self._read()
        if index.leaving and self._agent is not None:  # the leaving turns may be stored already
            with self._lock:
                index = self._recover()
        if self._has_expired(index):
            return []
        return self._fetch_turns(range(index.first if n is None else max(index.first, index.next - n), index.next))

    def get_recent_messages(self, n: int = 10) -> str:
        """Return the last `n` turns as text, one a line, each after its role."""
        return "\n".join(map(str, self.messages(n)))

    def summary(self) -> str:
        """Return the summary of what was handed over in this session; empty if nothing was."""
        return self._read().summary

    def create_summary(self) -> str:
        """Summarise the whole session, handed over or not, without changing anything."""
        index = self._read()
        return self._summary_of(self._fetch_turns(range(index.first, index.next)), index.summary)

    @property
    def data(self) -> dict[str, str]:
        """The current turns as texts by key, oldest first (seed 002)."""
        index = self._read()
        held = self.messages()
        return {f"msg_{index.next - len(held) + place}": str(turn) for place, turn in enumerate(held)}

    @property
    def tokens(self) -> int:
        """Approximate number of tokens of the current turns."""
        return sum(_size(turn) for turn in self.messages())

    def hand_over(self, keep: int = 0) -> list[Handover]:
        """Hand over all turns but the last `keep`, as at the end of a session; returns the handovers, oldest first."""
        arguments.count("keep", keep, most=10**9, least=0)
        if self._agent is None:
            raise InvalidInput("there is no agent to hand over to; create the working memory with an `agent`")
        with self._lock:
            index = self._recover()
            return self._hand_over_first(index, max(0, index.next - index.first - keep))[1]

    def drop_summary(self, ids: Collection[str]) -> bool:
        """Drop the session's summary if it is one of these memories; returns true if it was."""
        with self._lock:
            index = self._read()
            if index.summary_id not in ids:
                return False
            self._write(replace(index, summary=_EMPTY, summary_id=None, tool=False))
            return True

    def close(self) -> None:
        """Close the session, handing over turns that would be lost with this process.

        On a server the turns are kept for the session's continuation. Closing twice is harmless.
        """
        with self._lock:
            if self._closed:
                return
            if self._agent is not None and isinstance(self._backend, Volatile):
                self.hand_over()
            self._closed = True
        self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _store(self) -> ExpiringStore:
        if self._closed:
            raise StoreClosed(f"the session {self.session!a} was closed; open it again")
        return self._backend

    def _turns_to_hand_over(self, index: _Index, size: int) -> int:
        """Return how many of the oldest turns to hand over before adding one of this size.

        After a pause these are all turns, otherwise those beyond the capacity.
        """
        if self._has_expired(index) or self._has_elapsed(
            index.since, self._lifetime / 2
        ):  # the store will not wait for ever
            return index.next - index.first
        rest = index.size
        if rest + size <= self._capacity:
            return 0
        for leaving, turn in enumerate(self._iter_turns(range(index.first, index.next))):
            if rest + size <= self._capacity * SHARE_AFTER_HANDOVER:
                return leaving
            rest -= 0 if turn is None else _size(turn)
        return index.next - index.first

    def _has_expired(self, index: _Index) -> bool:
        """Return true if the last turn is older than the session's time to live."""
        return self._has_elapsed(index.last, self._ttl)

    def _has_elapsed(self, since: int, seconds: float) -> bool:
        return micros(self._sources.now()) - since >= seconds * 1_000_000

    def _without_expired(self, index: _Index) -> _Index:
        """Skip expired turns at the beginning: two at most, which is more than are added."""
        oldest = range(index.first, min(index.next, index.first + 2))
        gone = list(takewhile(lambda turn: turn is None, self._iter_turns(oldest)))
        return replace(index, first=index.first + len(gone))

    def _hand_over_first(self, index: _Index, leaving: int) -> tuple[_Index, list[Handover]]:
        """Hand over the first turns; returns the new index and the handovers."""
        done = []
        while leaving > 0:
            portion = min(leaving, _MAX_HANDOVER)
            turns = self._fetch_turns(range(index.first, index.first + portion))
            planned = self._clean(self._summary_of(turns, index.summary))
            index = replace(index, leaving=portion, planned=planned)
            self._write(index)
            index, handover = self._finish_handover(index)
            done += [handover] if handover else []
            leaving -= portion
        return index, done

    def _recover(self) -> _Index:
        """Return the index, after completing an interrupted handover."""
        index = self._read()
        return self._finish_handover(index)[0] if index.leaving and self._agent is not None else index

    def _finish_handover(self, index: _Index) -> tuple[_Index, Handover | None]:
        """Store the leaving turns, then their summary, then drop them; each step is idempotent."""
        leaving = range(index.first, index.first + index.leaving)
        turns = self._fetch_turns(leaving)
        handover = self._store_handover(turns, index) if turns else None
        if handover is not None:
            since, tool = micros(turns[-1].at), _includes_tools(turns, index)
            index = replace(index, summary=index.planned, summary_id=handover.summary, since=since, tool=tool)
        rest = index.size - sum(map(_size, turns)) if leaving.stop < index.next else 0
        index = replace(index, first=leaving.stop, size=rest, leaving=0, planned=_EMPTY)
        self._write(index)
        self._store.drop(self._scope, [self._turn_key(number) for number in leaving])
        return index, handover

    def _store_handover(self, turns: Sequence[Turn], index: _Index) -> Handover:
        messages = [self._message(turn) for turn in turns]
        ids = self._remember(messages)
        summary = Draft(
            index.planned,
            kind=MemoryType.REFLECTION,
            at=turns[-1].at,
            session=self.session,
            sources=(*([index.summary_id] if index.summary_id else []), *ids),
            key=f"summary {digest(*(turn.id for turn in turns))}",
            origin=Origin.TOOL if _includes_tools(turns, index) else Origin.SELF,
        )
        return Handover(messages=tuple(ids), summary=self._remember([summary])[0])

    def _message(self, turn: Turn) -> Draft:
        return Draft(
            turn.content,
            kind=MemoryType.MESSAGE,
            at=turn.at,
            session=self.session,
            role=turn.role,
            speaker=turn.speaker,
            key=f"turn {turn.id}",
        )

    def _remember(self, drafts: Sequence[Draft]) -> list[str]:
        receipts = self._agent.remember(drafts) if self._agent is not None else []
        for receipt in receipts:
            if receipt.status == "rejected":  # a quarantined one is stored, too
                raise InvalidInput(f"a turn cannot be handed over, so it stays in the session: {receipt.reason}")
        return [str(receipt.id) for receipt in receipts]

    def _summary_of(self, turns: Sequence[Turn], before: str) -> str:
        text = ""
        try:
            text = self._summarise(turns, before)
        except Exception as error:  # noqa: BLE001 - a memory is never lost to a model, whatever the model does
            _log.warning("the summariser failed, so the summary was made of sentences: %s", error)
        usable = isinstance(text, str) and text.strip() and len(text) <= MAX_TEXT and unstorable(text) is None
        return text if usable else extract_summary(turns, before) or (str(turns[-1])[:MAX_LABEL] if turns else before)

    def _turn(self, role: str, content: str, speaker: str | None) -> Turn:
        """Make a redacted turn; anything that could not be stored at a handover is refused now."""
        if not isinstance(content, str) or not content.strip():
            raise InvalidInput("the message is empty; give its text")
        if reason := unstorable(content):
            raise InvalidInput(f"the message cannot be stored: {reason}")
        cleaned = self._clean(content)
        if len(cleaned) > MAX_TEXT:
            raise InvalidInput(f"the message has {len(cleaned):,} characters, {MAX_TEXT:,} are the limit; split it")
        return Turn(
            id=self._sources.new_id(),
            role=self._clean_label("role", role),
            content=cleaned,
            at=self._sources.now(),
            speaker=None if speaker is None else self._clean_label("speaker", speaker),
        )

    def _clean_label(self, name: str, value: str) -> Clean:
        cleaned = self._clean(_check_label(name, value))
        _check_label(name, cleaned)
        return cleaned

    def _clean(self, text: str) -> Clean:
        return self._redactor.clean([text])[0].text

    def _read(self) -> _Index:
        (found,) = self._store.fetch(self._scope, [self._index_key])
        return self._initial_index() if found is None else self._validate(_index, found)

    def _initial_index(self) -> _Index:
        """Return the index of a new session; if it existed before, with its last summary."""
        agent: object = self._agent
        if not isinstance(agent, SessionHistory):
            return _Index()
        last = next(iter(agent.list(limit=1, kinds=MemoryType.REFLECTION, session=self.session)), None)
        if last is None:
            return _Index()
        return _Index(summary=last.text, summary_id=last.id, tool=last.provenance.origin != Origin.SELF)

    def _write(self, index: _Index, turns: Mapping[str, JsonValue] | None = None) -> None:
        kept: dict[str, JsonValue] = {self._index_key: asdict(index), **(turns or {})}
        self._store.put(self._scope, kept, self._lifetime)

    def _iter_turns(self, numbers: range) -> Iterator[Turn | None]:
        """Yield the turns with these numbers in order; `None` for expired or lost ones."""
        for start in range(numbers.start, numbers.stop, _PAGE):
            some = range(start, min(start + _PAGE, numbers.stop))
            for found in self._store.fetch(self._scope, [self._turn_key(number) for number in some]):
                yield None if found is None else self._validate(_turn, found)

    def _validate(self, kind: TypeAdapter[T], found: JsonValue) -> T:
        try:
            return kind.validate_python(found)
        except ValidationError as error:
            name = ascii(self.session)
            raise StoreCorrupt(
                f"the stored session {name} is damaged: {describe_error(error)}; use another session"
            ) from None

    def _fetch_turns(self, numbers: range) -> list[Turn]:
        return [turn for turn in self._iter_turns(numbers) if turn is not None]

    @property
    def _index_key(self) -> str:
        return f"{self._prefix}/turns"

    def _turn_key(self, number: int) -> str:
        return f"{self._prefix}/turn/{number}"

    def _make_value_key(self, key: str) -> str:
        return f"{self._prefix}/value/{handle(self._redactor, _check_label('key', key)).text}"


class SessionOptions(TypedDict, total=False):
    """Options of a session; missing ones have their defaults."""

    ttl: float
    capacity_tokens: int | None
    summarise: Summarise


class WorkingSessions:
    """The open sessions of this process; everyone who opens a session gets the same object.

    They share one store, which is opened on first use.
    """

    def __init__(self, open: Callable[[], ExpiringStore], redactor: Redactor, sources: Sources) -> None:
        self._open, self._redactor, self._sources = open, redactor, sources
        self._store: ExpiringStore | None = None
        self._sessions: dict[tuple[Scope, str], tuple[WorkingMemory, SessionOptions]] = {}
        self._lock = threading.Lock()

    def open(
        self,
        agent: HandoverAgent,
        scope: Scope,
        session: str,
        options: SessionOptions,
        usual: Callable[[], SessionOptions] = SessionOptions,
    ) -> WorkingMemory:
        """Open a session, or return the open one; `usual` gives defaults for missing options.

        Raises `Conflict` if it is open with other options.
        """
        key = (scope, handle(self._redactor, _check_label("session", session)).text)
        with self._lock:
            if key in self._sessions:
                known, said = self._sessions[key]
                if {**said, **options} != said:
                    raise Conflict(f"the session {known.session!a} is open with other options; close it first")
                return known
            options = {**usual(), **options}
            if self._store is None:
                self._store = self._open()
            made = WorkingMemory(
                self._store,
                scope,
                redactor=self._redactor,
                sources=self._sources,
                session=session,
                agent=agent,
                closing=lambda: self._remove(key),
                **options,
            )
            self._sessions[key] = (made, options)
            return made

    def drop_summary(self, scope: Scope, session: str, ids: Collection[str]) -> int:
        """Drop a session's summary if it is one of these deleted memories; returns the number dropped."""
        with self._lock:
            known = self._sessions.get((scope, handle(self._redactor, session).text))
            if known is None and self._store is None:
                self._store = self._open()
            store = self._store
        if known is None and store is not None:
            redactor, sources, ttl = self._redactor, self._sources, 2 * ABANDONED_TTL
            held = WorkingMemory(store, scope, redactor=redactor, sources=sources, session=session, ttl=ttl)
            return int(held.drop_summary(ids))
        return int(known is not None and known[0].drop_summary(ids))

    def clear(self, scope: Scope) -> int:
        """Delete all sessions of an agent without handing over; returns the number of values."""
        with self._lock:
            for key in [key for key in self._sessions if key[0] == scope]:
                self._sessions.pop(key)[0]._closed = True
            if self._store is None:
                self._store = self._open()
            store = self._store
        return store.clear(scope) if isinstance(store, ClearsSessions) else 0

    def close(self) -> None:
        """Close all sessions, handing over turns that would be lost, and the store."""
        with self._lock:
            held, store = [session for session, _ in self._sessions.values()], self._store
        with ExitStack() as stack:
            if store is not None:
                stack.callback(store.close)
            for session in held:
                stack.callback(session.close)

    def _remove(self, key: tuple[Scope, str]) -> None:
        with self._lock:
            self._sessions.pop(key, None)


def _includes_tools(turns: Sequence[Turn], index: _Index) -> bool:
    """Return true if a summary of these turns and the previous summary may contain output of tools."""
    return index.tool or any(turn.role == TOOL for turn in turns)


def _size(turn: Turn) -> int:
    return tokens(str(turn))


def _check_label(name: str, value: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_LABEL:
        raise InvalidInput(f"{name} must be a text of 1 to {MAX_LABEL} characters")
    if reason := unstorable(value):
        raise InvalidInput(f"{name} cannot be stored: {reason}")
    return value


def _check_ttl(ttl: float) -> float:
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl < 10**9:
        raise InvalidInput(f"a time to live is a number of seconds above 0, not {ttl!r}")
    return float(ttl)
