"""What an agent has learned, folded from its events in the order of recording, and kept up to date.

Nothing here is canonical: it can be thrown away at any time, and folding again gives the same.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from pydantic import JsonValue

from engram.errors import StoreError
from engram.learning import events as happened
from engram.learning.decisions.rates import Rates, day_of
from engram.learning.failures.recognizer import PatternRecognizer
from engram.learning.situations.nearness import Nearness
from engram.learning.situations.situations import Situations
from engram.ports import FORGOTTEN, Event, KeepsEvents, Scope, Store, as_agents
from engram.ports.completed import can
from engram.text.terms import digest

FORM = 14
"""Changes when what is folded changes; a snapshot of another form is not used."""
PAGE = 2000
WORTH_KEEPING = 2000
"""After so many new events a snapshot is kept, so that the next process need not fold them again."""
NEARNESS = "nearness"
"""The kind of setting that says what the closeness of contexts means to an agent."""
AGENTS = 64
MOST_PENDING = 200
MOST_VERDICTS = 10_000
"""So many of the newest verdicts can be cited by a decision."""
_log = logging.getLogger("engram")
_REFRESHED: ContextVar[set[tuple[int, Scope]] | None] = ContextVar("refreshed", default=None)
"""The states that were brought up to date since the call began that is under way; `None` outside of such calls."""


@contextmanager
def read_once() -> Iterator[None]:
    """Within it, what was recorded meanwhile is read once for each agent, so that all of an answer is of one state."""
    token = _REFRESHED.set(set())
    try:
        yield
    finally:
        _REFRESHED.reset(token)


class Learned:
    """Everything folded from one agent's events, up to the number `seq`."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.seq = 0
        self.recognizer = PatternRecognizer()
        self.rates = Rates()
        self.situations = Situations()
        self.days: dict[int, list[int]] = {}
        """By day: decisions, those informed by memory, failures that came back, those recognised, those of others."""
        self.seen: dict[str, str] = {}
        """The failures that happened, by what makes two of them the same, and the pattern each was put under."""
        self.verdicts: dict[str, datetime] = {}
        """When the newest verdicts were given, by id."""
        self.ran: dict[str, str] = {}
        """When the command of a check last found its condition met; empty if it did not."""
        self.early: set[str] = set()
        """Events that were learned from before they were stored."""
        self.unkept = 0
        """Events that no snapshot has yet."""
        self.nearness: tuple[str, Nearness] | None = None
        """The state of the memory in which it was told last how near contexts of one kind are, and what was told."""

    def fold(self, event: Event) -> None:
        """Learn from one event; they come in the order of recording, each once."""
        self.seq = event.seq
        self.situations.fold(event)
        if event.kind == happened.DECISION:
            self._count(event.at, 0)
            if happened.informed(event, self.verdicts):
                self._count(event.at, 1)
                if event.body.get("lent"):
                    self._count(event.at, 4)
            quality = happened.number(event, "quality")
            if quality is not None:
                self.rates.count(happened.features(event), happened.text(event, "action"), event.at, quality)
        elif event.kind == happened.OUTCOME:
            self._correct(event)
        elif event.kind == happened.CHECKED:
            self.verdicts[event.id] = event.at
            if len(self.verdicts) > MOST_VERDICTS:
                del self.verdicts[next(iter(self.verdicts))]
        alike = happened.sameness(event)
        before = self._pattern_of(event) if alike else ""
        if event.id in self.early:
            self.early.discard(event.id)
        else:
            self._note(event)
        if alike:
            self._measure_recognition(event, alike, before)

    def _measure_recognition(self, event: Event, alike: Sequence[str], before: str) -> None:
        """Count a failure that came back, and whether it was put under the pattern of its earlier occurrence.

        `alike` are the keys that make it the same as an earlier one, which no recogniser decides; `before` is the
        pattern it was recognised as before anything was learned from it.
        """
        earlier = {self.seen[key] for key in alike if key in self.seen}
        if earlier:
            self._count(event.at, 2)
            current = {found.pattern_id for id in earlier if (found := self.recognizer.pattern(id)) is not None}
            if before and before in current:
                self._count(event.at, 3)
        if any(key not in self.seen for key in alike):
            pattern = self._pattern_of(event)
            self.seen |= {key: pattern for key in alike if key not in self.seen}

    def _pattern_of(self, event: Event) -> str:
        """The id of the pattern that the error of an event belongs to, as far as is known now."""
        found = self.recognizer.find(happened.text(event, "error"), happened.text(event, "action"))
        return "" if found is None else found.pattern_id

    def note_early(self, event: Event) -> None:
        """Learn from an event that is still to be stored; when it comes by, it is known."""
        self._note(event)
        self.early.add(event.id)

    def _note(self, event: Event) -> None:
        if event.kind == happened.RAN:
            met = happened.number(event, "quality") == 1.0
            self.ran[happened.text(event, "about")] = event.at.isoformat() if met else ""
        if (seen := happened.happening(event, self.agent)) is not None:
            self.recognizer.fold(replace(seen, situation=self.situations.of(seen.context) or ""))

    def met(self, checks: Iterable[str], since: datetime) -> bool:
        """Whether what each of these checks verifies was found to be so since then."""
        return all((at := self.ran.get(check, "")) and datetime.fromisoformat(at) >= since for check in checks)

    def _correct(self, event: Event) -> None:
        decided = datetime.fromisoformat(happened.text(event, "decided"))
        around, action = happened.features(event), happened.text(event, "action")
        before, quality = happened.number(event, "before"), happened.number(event, "quality")
        if before is not None:
            self.rates.count(around, action, decided, before, -1)
        if quality is not None:
            self.rates.count(around, action, decided, quality)

    def _count(self, at: datetime, which: int) -> None:
        self.days.setdefault(day_of(at), [0, 0, 0, 0, 0])[which] += 1

    def dump(self) -> JsonValue:
        """The whole state as JSON."""
        return {
            "form": FORM,
            "seq": self.seq,
            "failures": cast(JsonValue, self.recognizer.dump()),
            "rates": self.rates.dump(),
            "situations": self.situations.dump(),
            "days": [[day, *counts] for day, counts in sorted(self.days.items())],
            "seen": dict(sorted(self.seen.items())),
            "verdicts": [[id, at.isoformat()] for id, at in self.verdicts.items()],
            "ran": dict(sorted(self.ran.items())),
        }

    @classmethod
    def load(cls, agent: str, state: Any) -> Learned | None:
        """What `dump` gave; `None` if it is of another form."""
        if not isinstance(state, dict) or state.get("form") != FORM:
            return None
        learned = cls(agent)
        learned.seq = state["seq"]
        learned.recognizer = PatternRecognizer.load(state["failures"])
        learned.rates = Rates.load(state["rates"])
        learned.situations = Situations.load(state["situations"])
        learned.days = {day: counts for day, *counts in state["days"]}
        learned.seen, learned.ran = dict(state["seen"]), dict(state["ran"])
        learned.verdicts = {id: datetime.fromisoformat(at) for id, at in state["verdicts"]}
        return learned


class Experience:
    """What agents have learned; at every look, what other processes recorded meanwhile is folded in."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._learned: OrderedDict[Scope, Learned] = OrderedDict()
        self.pending: dict[Scope, list[Event]] = {}
        """Events that are written with the next commit, by scope."""
        self._lock = threading.RLock()

    @contextmanager
    def of(self, scope: Scope) -> Iterator[Learned]:
        """What an agent has learned until now, while nobody learns more; nothing, if the store keeps no events."""
        with self._lock:
            yield self._refreshed(scope)

    def refresh(self, scope: Scope) -> None:
        """Learn from what was recorded since the last call."""
        with self._lock:
            self._refreshed(scope)

    def _refreshed(self, scope: Scope) -> Learned:
        refreshed = _REFRESHED.get()
        if refreshed is not None:
            if (id(self), scope) in refreshed and scope in self._learned:
                return self._learned[scope]
            refreshed.add((id(self), scope))
        learned = self._learned.get(scope) or self._snapshot(scope) or Learned(scope.agent)
        known = learned
        learned = self._go_on(self._store, scope, learned)
        if learned is not known or scope not in self._learned:
            for event in self.pending.get(scope, ()):
                learned.note_early(event)
        self._learned[scope] = learned
        self._learned.move_to_end(scope)
        if len(self._learned) > AGENTS:
            self._learned.popitem(last=False)
        self._keep(scope, learned)
        return learned

    def nearness(self, scope: Scope, state: str | None = None) -> Nearness | None:
        """Give what the closeness of contexts means to an agent, told in this state of its memory, or if any, last."""
        with self.of(scope) as learned:
            known = learned.nearness
            if (known is None or state not in {None, known[0]}) and (kept := self._setting(_name(scope, NEARNESS))):
                told = json.loads(kept)
                known = learned.nearness = told["state"], Nearness.load(told["nearness"])
        return known[1] if known is not None and state in {None, known[0]} else None

    def keep_nearness(self, scope: Scope, state: str, nearness: Nearness) -> None:
        """Keep what the closeness of contexts means to an agent, also for other processes."""
        with self.of(scope) as learned:
            learned.nearness = state, nearness
        self._set(_name(scope, NEARNESS), json.dumps({"state": state, "nearness": nearness.dump()}))

    def later(self, scope: Scope, event: Event) -> None:
        """Keep an event with the next one that is worth a commit: it is a statistic, and an action waits for us."""
        with self._lock:
            pending = self.pending.setdefault(scope, [])
            pending.append(event)
            if scope in self._learned:
                self._learned[scope].note_early(event)
            if len(pending) >= MOST_PENDING:
                self.flush(scope)

    def flush(self, scope: Scope | None = None) -> None:
        """Write what is pending, of one agent or of all."""
        with self._lock:
            for owner in [scope] if scope is not None else list(self.pending):
                events = self.pending.pop(owner, [])
                if events and can(self._store, KeepsEvents):
                    with as_agents():
                        self._store.append(owner, events)

    def anew(self, scope: Scope) -> int:
        """Fold everything again from the canonical events; how many failure patterns there are."""
        with self._lock:
            self._learned.pop(scope, None)
            self._drop(_name(scope))
            return len(self._refreshed(scope).recognizer.patterns())

    def _go_on(self, store: KeepsEvents, scope: Scope, learned: Learned) -> Learned:
        """Fold what came since; from the start, if something that was learned from has been forgotten."""
        fresh = set[str]() if learned.seq == 0 else None
        while events := store.events_after(scope, learned.seq, PAGE):
            for event in events:
                if event.kind == FORGOTTEN and (fresh is None or event.body.get("id") in fresh):
                    self._drop_snapshot(scope)
                    return self._go_on(store, scope, Learned(scope.agent))
                learned.fold(event)
                learned.unkept += 1
                if fresh is not None:
                    fresh |= {event.subject, event.id}
        return learned

    def forgot(self, scope: Scope) -> None:
        """Nothing of what was forgotten may stay in what was learned; it is learned again when it is needed."""
        with self._lock:
            self._learned.pop(scope, None)
            self._drop_snapshot(scope)

    def _drop_snapshot(self, scope: Scope) -> None:
        self._drop(_name(scope))
        self._drop(_name(scope, NEARNESS))

    def _drop(self, name: str) -> None:
        if self._store.setting(name):
            self._store.set_setting(name, "")

    def _snapshot(self, scope: Scope) -> Learned | None:
        kept = self._setting(_name(scope))
        return Learned.load(scope.agent, json.loads(kept)) if kept else None

    def _keep(self, scope: Scope, learned: Learned) -> None:
        if learned.unkept < WORTH_KEEPING or learned.early:
            return
        learned.unkept = 0
        self._set(_name(scope), json.dumps(learned.dump(), ensure_ascii=False))

    def _setting(self, name: str) -> str | None:
        return self._store.setting(name)

    def _set(self, name: str, value: str) -> None:
        try:
            self._store.set_setting(name, value)
        except StoreError as error:  # whoever only reads need not be able to write
            _log.info("what was learned is not kept for the next process: %s", error)


def _name(scope: Scope, kind: str = "learned") -> str:
    return f"{kind}:{digest(scope.agent)}"
