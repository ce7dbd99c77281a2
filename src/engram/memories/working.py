"""What an agent holds in mind during a session: values that expire, and the latest turns.

When the turns become too many, the oldest are handed over: written to long-term memory word for word, with a summary
that names them, and only then dropped. A hand-over that was interrupted is finished by the next one to begin.
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
from engram.memories.summaries import Said, summarise
from engram.model import Draft, Memory, MemoryType, Origin, Receipt, describe_error
from engram.model.clean import Clean
from engram.model.episode import Handover, Turn
from engram.ports import ClearsSessions, ExpiringStore, Redactor, Scope, Volatile, arguments, unstorable
from engram.privacy import clean_json
from engram.recall.pack import tokens
from engram.recording.draft import MAX_LABEL, MAX_TAGS, MAX_TEXT, handle
from engram.text.terms import digest

CAPACITY = 8_000
TTL = 3_600.0
LEFT_OVER = 30 * 24 * 3_600.0
"""Seconds that a store keeps turns which wait for their hand-over, should nobody come back to the session."""
KEPT_SHARE = 0.5
"""How full the turns leave it after a hand-over: so that there is enough to sum up, and not again at the next turn."""
_LARGEST = MAX_TAGS - 1
"""Turns of one hand-over: a memory names that many sources, and one of them is the summary before."""
TOOL = "tool"
"""The role whose turns are not the agent's own words, nor is a summary of them."""
_NAMES = 4_096
_PORTION = 200
_NOTHING = Clean("")
_log = logging.getLogger("engram")

T = TypeVar("T")
Memories = list[Memory]

Summarise = Callable[[Sequence[Turn], str], str]
"""Sums up turns, given the summary of what was before them."""


class Remembers(Protocol):
    """The agent, as far as a hand-over needs it."""

    def remember(self, text: Sequence[Draft], /) -> list[Receipt]:
        """Remember drafts in one transaction; the receipts come after the commit, in order."""
        ...


@runtime_checkable
class Lists(Protocol):
    """The agent, as far as it knows what was handed over before."""

    def list(self, *, limit: int, kinds: str, session: str) -> Memories:
        """The memories of a kind in a session, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class _Index:
    """Where the turns of a session are: numbered from `first` to before `next`; numbers are never given again."""

    first: int = 0
    next: int = 0
    size: int = 0
    """Tokens of all turns."""
    since: int = 0
    """When the oldest came, or before, in microseconds."""
    last: int = 0
    """When the newest came."""
    leaving: int = 0
    """How many of the first are being handed over."""
    planned: Clean = _NOTHING
    """The summary of those that leave; written down before they are, so that it is the same after an interruption."""
    summary: Clean = _NOTHING
    summary_id: str | None = None
    tool: bool = False
    """Whether the summary may say what a tool said."""


_index: TypeAdapter[_Index] = TypeAdapter(_Index)
_turn: TypeAdapter[Turn] = TypeAdapter(Turn)


def extract(turns: Sequence[Turn], before: str) -> str:
    """The sentences of the turns, and of the summary before them, that say most."""
    return summarise([Said("", before), *(Said(turn.role, turn.content) for turn in turns)])


class WorkingMemory:
    """One session of an agent. Threads may share it; a session belongs to one process at a time.

    `agent` is who remembers what is handed over: the oldest turns when there is no more room, and all of them when one
    comes after a silence of `ttl` seconds. Without one there is no capacity, and each turn expires after its `ttl`.
    Secrets are taken out of all that is kept. At the end of a `with` it is closed; `closing` is called then.
    """

    def __init__(
        self,
        store: ExpiringStore,
        scope: Scope,
        *,
        redactor: Redactor,
        sources: Sources,
        session: str = "main",
        agent: Remembers | None = None,
        ttl: float = TTL,
        capacity_tokens: int | None = None,
        summarise: Summarise = extract,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        if capacity_tokens is not None:
            arguments.count("capacity_tokens", capacity_tokens, most=10**9)
            if agent is None:
                raise InvalidInput("a capacity needs an agent that remembers what has no room; give one as `agent`")
        self._keeper, self._scope = store, scope
        self._closing, self._closed = closing, False
        self._redactor, self._sources = redactor, sources
        self._agent, self._summarise = agent, summarise
        self._ttl, self._capacity = _seconds(ttl), capacity_tokens or CAPACITY
        self._lifetime = self._ttl if agent is None else 2 * max(LEFT_OVER, self._ttl)
        self.session = handle(redactor, _label("session", session)).text
        _label("session", self.session)
        self._prefix = quote(self.session, safe="")
        self._place = lru_cache(_NAMES)(self._placed)
        self._lock = threading.RLock()

    def set(self, key: str, value: JsonValue, ttl: float = TTL) -> None:
        """Keep a value for `ttl` seconds from now; what was there is replaced."""
        cleaned, _ = clean_json(self._redactor, value)
        self._store.put(self._scope, {self._place(key): cleaned}, ttl)

    def get(self, key: str) -> JsonValue:
        """The value under a key; `None` if it is not there, or no longer."""
        return self._store.fetch(self._scope, [self._place(key)])[0]

    def delete(self, key: str) -> bool:
        """Remove a value; whether it was there."""
        return self._store.drop(self._scope, [self._place(key)]) > 0

    def add_message(self, role: str, content: str, *, speaker: str | None = None) -> Turn:
        """Keep one turn, after the oldest ones were handed over if it leaves them no room.

        If the hand-over fails the turn is not added: whoever tries again adds it once.
        """
        turn = self._turn(role, content, speaker)
        size = _size(turn)
        with self._lock:
            index = self._resumed()
            index = self._lighter(index) if self._agent is None else self._left(index, self._excess(index, size))[0]
            place = self._turn_key(index.next)
            now = micros(turn.at)
            since = index.since if index.next > index.first else now
            index = replace(index, next=index.next + 1, size=index.size + size, since=since, last=now)
            self._write(index, {place: turn.model_dump(mode="json")})
        return turn

    def messages(self, n: int | None = None) -> list[Turn]:
        """The last `n` turns, or all that are held, oldest first."""
        if n is not None:
            arguments.count("n", n, most=10**9, least=0)
        index = self._read()
        if index.leaving and self._agent is not None:  # those that leave are remembered already, perhaps
            with self._lock:
                index = self._resumed()
        if self._is_over(index):
            return []
        return self._fetched(range(index.first if n is None else max(index.first, index.next - n), index.next))

    def get_recent_messages(self, n: int = 10) -> str:
        """The last `n` turns as text, one a line, each after its role."""
        return "\n".join(map(str, self.messages(n)))

    def summary(self) -> str:
        """What was handed over so far in this session, in short; empty if nothing was."""
        return self._read().summary

    def create_summary(self) -> str:
        """What was said in this session, handed over or not, in short; nothing is changed."""
        index = self._read()
        return self._summed_up(self._fetched(range(index.first, index.next)), index.summary)

    @property
    def data(self) -> dict[str, str]:
        """The turns that are held as texts by a key each, oldest first (seed 002)."""
        index = self._read()
        held = self.messages()
        return {f"msg_{index.next - len(held) + place}": str(turn) for place, turn in enumerate(held)}

    @property
    def tokens(self) -> int:
        """About how many tokens the turns have that are held."""
        return sum(_size(turn) for turn in self.messages())

    def hand_over(self, keep: int = 0) -> list[Handover]:
        """Hand over all turns but the last `keep`, as at the end of a session; what was written, oldest first."""
        arguments.count("keep", keep, most=10**9, least=0)
        if self._agent is None:
            raise InvalidInput("there is nobody to hand over to; make this working memory with an `agent`")
        with self._lock:
            index = self._resumed()
            return self._left(index, max(0, index.next - index.first - keep))[1]

    def unsay(self, ids: Collection[str]) -> bool:
        """Drop the summary of what was handed over, if it is one of these memories; whether it was."""
        with self._lock:
            index = self._read()
            if index.summary_id not in ids:
                return False
            self._write(replace(index, summary=_NOTHING, summary_id=None, tool=False))
            return True

    def close(self) -> None:
        """Let go of the session: turns that would end with this process are handed over before, if there is an agent.

        On a server they stay, for whoever goes on with the session. Calling it twice is harmless.
        """
        with self._lock:
            if self._closed:
                return
            if self._agent is not None and isinstance(self._keeper, Volatile):
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
        return self._keeper

    def _excess(self, index: _Index, size: int) -> int:
        """How many of the oldest turns leave before one of this size comes: all if it is time, or what has no room."""
        if self._is_over(index) or self._passed(index.since, self._lifetime / 2):  # the store will not wait for ever
            return index.next - index.first
        rest = index.size
        if rest + size <= self._capacity:
            return 0
        for leaving, turn in enumerate(self._each(range(index.first, index.next))):
            if rest + size <= self._capacity * KEPT_SHARE:
                return leaving
            rest -= 0 if turn is None else _size(turn)
        return index.next - index.first

    def _is_over(self, index: _Index) -> bool:
        """Whether there was silence for so long that what was said is no longer in mind."""
        return self._passed(index.last, self._ttl)

    def _passed(self, since: int, seconds: float) -> bool:
        return micros(self._sources.now()) - since >= seconds * 1_000_000

    def _lighter(self, index: _Index) -> _Index:
        """The index without the oldest turns if they have expired: two at most, which is more than come."""
        oldest = range(index.first, min(index.next, index.first + 2))
        gone = list(takewhile(lambda turn: turn is None, self._each(oldest)))
        return replace(index, first=index.first + len(gone))

    def _left(self, index: _Index, leaving: int) -> tuple[_Index, list[Handover]]:
        """The index without its first turns, once they are remembered."""
        done = []
        while leaving > 0:
            portion = min(leaving, _LARGEST)
            turns = self._fetched(range(index.first, index.first + portion))
            planned = self._clean(self._summed_up(turns, index.summary))
            index = replace(index, leaving=portion, planned=planned)
            self._write(index)
            index, handover = self._finished(index)
            done += [handover] if handover else []
            leaving -= portion
        return index, done

    def _resumed(self) -> _Index:
        """The index, after a hand-over that was interrupted is finished."""
        index = self._read()
        return self._finished(index)[0] if index.leaving and self._agent is not None else index

    def _finished(self, index: _Index) -> tuple[_Index, Handover | None]:
        """Write the turns that leave, then their summary, then let go of them: each step can be done twice."""
        leaving = range(index.first, index.first + index.leaving)
        turns = self._fetched(leaving)
        handover = self._written(turns, index) if turns else None
        if handover is not None:
            since, tool = micros(turns[-1].at), _by_tools(turns, index)
            index = replace(index, summary=index.planned, summary_id=handover.summary, since=since, tool=tool)
        rest = index.size - sum(map(_size, turns)) if leaving.stop < index.next else 0
        index = replace(index, first=leaving.stop, size=rest, leaving=0, planned=_NOTHING)
        self._write(index)
        self._store.drop(self._scope, [self._turn_key(number) for number in leaving])
        return index, handover

    def _written(self, turns: Sequence[Turn], index: _Index) -> Handover:
        messages = [self._message(turn) for turn in turns]
        ids = self._remembered(messages)
        summary = Draft(
            index.planned,
            kind=MemoryType.REFLECTION,
            at=turns[-1].at,
            session=self.session,
            sources=(*([index.summary_id] if index.summary_id else []), *ids),
            key=f"summary {digest(*(turn.id for turn in turns))}",
            origin=Origin.TOOL if _by_tools(turns, index) else Origin.SELF,
        )
        return Handover(messages=tuple(ids), summary=self._remembered([summary])[0])

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

    def _remembered(self, drafts: Sequence[Draft]) -> list[str]:
        receipts = self._agent.remember(drafts) if self._agent is not None else []
        for receipt in receipts:
            if receipt.status == "rejected":  # one that is set apart is kept, too
                raise InvalidInput(f"a turn cannot be handed over and stays: {receipt.reason}")
        return [str(receipt.id) for receipt in receipts]

    def _summed_up(self, turns: Sequence[Turn], before: str) -> str:
        text = ""
        try:
            text = self._summarise(turns, before)
        except Exception as error:  # noqa: BLE001 - a memory is never lost to a model, whatever the model does
            _log.warning("summed up by its sentences, the summariser failed: %s", error)
        usable = isinstance(text, str) and text.strip() and len(text) <= MAX_TEXT and unstorable(text) is None
        return text if usable else extract(turns, before) or (str(turns[-1])[:MAX_LABEL] if turns else before)

    def _turn(self, role: str, content: str, speaker: str | None) -> Turn:
        """The turn, clean and of a form that can be handed over: what cannot is refused now, not then."""
        if not isinstance(content, str) or not content.strip():
            raise InvalidInput("the message is empty; say what was said")
        if reason := unstorable(content):
            raise InvalidInput(f"the message cannot be kept as it is: {reason}")
        cleaned = self._clean(content)
        if len(cleaned) > MAX_TEXT:
            raise InvalidInput(f"the message has {len(cleaned):,} characters, {MAX_TEXT:,} are the limit; split it")
        return Turn(
            id=self._sources.new_id(),
            role=self._named("role", role),
            content=cleaned,
            at=self._sources.now(),
            speaker=None if speaker is None else self._named("speaker", speaker),
        )

    def _named(self, name: str, value: str) -> Clean:
        cleaned = self._clean(_label(name, value))
        _label(name, cleaned)
        return cleaned

    def _clean(self, text: str) -> Clean:
        return self._redactor.clean([text])[0].text

    def _read(self) -> _Index:
        (found,) = self._store.fetch(self._scope, [self._index_key])
        return self._before() if found is None else self._valid(_index, found)

    def _before(self) -> _Index:
        """Where a session begins: with the summary of what was handed over in it, if it is an old one."""
        agent: object = self._agent
        if not isinstance(agent, Lists):
            return _Index()
        last = next(iter(agent.list(limit=1, kinds=MemoryType.REFLECTION, session=self.session)), None)
        if last is None:
            return _Index()
        return _Index(summary=last.text, summary_id=last.id, tool=last.provenance.origin != Origin.SELF)

    def _write(self, index: _Index, turns: Mapping[str, JsonValue] | None = None) -> None:
        kept: dict[str, JsonValue] = {self._index_key: asdict(index), **(turns or {})}
        self._store.put(self._scope, kept, self._lifetime)

    def _each(self, numbers: range) -> Iterator[Turn | None]:
        """The turns with these numbers, in order; `None` for one that expired, or that the store lost."""
        for start in range(numbers.start, numbers.stop, _PORTION):
            some = range(start, min(start + _PORTION, numbers.stop))
            for found in self._store.fetch(self._scope, [self._turn_key(number) for number in some]):
                yield None if found is None else self._valid(_turn, found)

    def _valid(self, kind: TypeAdapter[T], found: JsonValue) -> T:
        try:
            return kind.validate_python(found)
        except ValidationError as error:
            name = ascii(self.session)
            raise StoreCorrupt(
                f"session {name} is not as it was written: {describe_error(error)}; use another one"
            ) from None

    def _fetched(self, numbers: range) -> list[Turn]:
        return [turn for turn in self._each(numbers) if turn is not None]

    @property
    def _index_key(self) -> str:
        return f"{self._prefix}/turns"

    def _turn_key(self, number: int) -> str:
        return f"{self._prefix}/turn/{number}"

    def _placed(self, key: str) -> str:
        return f"{self._prefix}/value/{handle(self._redactor, _label('key', key)).text}"


class SessionOptions(TypedDict, total=False):
    """How a session is held in mind; what is left out is as usual."""

    ttl: float
    capacity_tokens: int | None
    summarise: Summarise


class Sessions:
    """The sessions that are open in this process, each once: all who ask for one share it, and its lock.

    They are kept in one store, which is opened at first need.
    """

    def __init__(self, open: Callable[[], ExpiringStore], redactor: Redactor, sources: Sources) -> None:
        self._open, self._redactor, self._sources = open, redactor, sources
        self._store: ExpiringStore | None = None
        self._held: dict[tuple[Scope, str], tuple[WorkingMemory, SessionOptions]] = {}
        self._lock = threading.Lock()

    def of(
        self,
        agent: Remembers,
        scope: Scope,
        session: str,
        options: SessionOptions,
        usual: Callable[[], SessionOptions] = SessionOptions,
    ) -> WorkingMemory:
        """The session of this name; `usual` is asked for what the options leave out.

        Raises `Conflict` if it is open with other options than those that are given.
        """
        key = (scope, handle(self._redactor, _label("session", session)).text)
        with self._lock:
            if key in self._held:
                known, said = self._held[key]
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
                closing=lambda: self._let_go(key),
                **options,
            )
            self._held[key] = (made, options)
            return made

    def forgot(self, scope: Scope, session: str, ids: Collection[str]) -> int:
        """Drop the summary that a session holds of memories that were forgotten; how many it was."""
        with self._lock:
            known = self._held.get((scope, handle(self._redactor, session).text))
            if known is None and self._store is None:
                self._store = self._open()
            store = self._store
        if known is None and store is not None:
            redactor, sources, ttl = self._redactor, self._sources, 2 * LEFT_OVER
            held = WorkingMemory(store, scope, redactor=redactor, sources=sources, session=session, ttl=ttl)
            return int(held.unsay(ids))
        return int(known is not None and known[0].unsay(ids))

    def clear(self, scope: Scope) -> int:
        """Let go of all that an agent holds in mind; nothing of it is handed over. How many values there were."""
        with self._lock:
            for key in [key for key in self._held if key[0] == scope]:
                self._held.pop(key)[0]._closed = True
            if self._store is None:
                self._store = self._open()
            store = self._store
        return store.clear(scope) if isinstance(store, ClearsSessions) else 0

    def close(self) -> None:
        """Close all sessions, which hands over what would end with this process, and the store."""
        with self._lock:
            held, store = [session for session, _ in self._held.values()], self._store
        with ExitStack() as stack:
            if store is not None:
                stack.callback(store.close)
            for session in held:
                stack.callback(session.close)

    def _let_go(self, key: tuple[Scope, str]) -> None:
        with self._lock:
            self._held.pop(key, None)


def _by_tools(turns: Sequence[Turn], index: _Index) -> bool:
    """Whether a summary of turns, and of what was summed up before them, may say what a tool said."""
    return index.tool or any(turn.role == TOOL for turn in turns)


def _size(turn: Turn) -> int:
    return tokens(str(turn))


def _label(name: str, value: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_LABEL:
        raise InvalidInput(f"{name} must be a text of 1 to {MAX_LABEL} characters")
    if reason := unstorable(value):
        raise InvalidInput(f"{name} cannot be kept as it is: {reason}")
    return value


def _seconds(ttl: float) -> float:
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl < 10**9:
        raise InvalidInput(f"a time to live is a number of seconds above 0, not {ttl!r}")
    return float(ttl)
