"""Situations: kinds of context that mean the same, in other words and with other ids and numbers.

A context belongs to the situation of its wording, which is its text without ids and long numbers. A new wording is a
situation of its own until it is placed: beside its nearest neighbour, if both are alike and the same is done in both,
or where a person puts it. Where it is placed is an event, so folding the events again gives the same situations.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import JsonValue

from engram.learn import happened
from engram.model.situation import Situation
from engram.ports import Event
from engram.words import digest, normal_form

TEXTS = 12
"""Wordings of a situation whose text is kept, the first ones."""
LONGEST = 300
"""Of a longer context, only the beginning is shown."""
RECENT = 128
"""Decisions of a situation that are found by it, the newest."""
JOIN = 0.65
"""The closeness from which on two wordings are of one situation, if nothing else is known; see `closeness_of`."""
SAME_ACTION, OTHER_ACTION = 0.15, 0.08
"""Closer by this if the same action was taken in both; farther by that if it is known, but not from there."""
MERGE, ALIKE, ENOUGH = 0.4, 0.8, 4
"""Two situations this close are one, if so many decisions in each show the same mixture of actions."""
_VALUE = re.compile(r"\b(?=\w*\d\w*\d\w*\d)\w{4,}\b")


class Neighbour(NamedTuple):
    """A decision near a context: the context it was taken in, what was done, and how close it is (1 is the same)."""

    context: str
    action: str
    closeness: float


@dataclass(slots=True)
class _Kind:
    id: str
    name: str = ""
    pinned: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    """By wording, as it was first written."""
    wordings: dict[str, Counter[str]] = field(default_factory=dict)
    """By wording, how often each action was taken."""
    actions: Counter[str] = field(default_factory=Counter)
    """All of these together."""
    recent: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """The newest decisions, each with its wording."""

    def times(self, key: str) -> int:
        return self.wordings[key].total()


def wording(context: str) -> str:
    """Give the key of a context's wording: its text without ids and long numbers."""
    return digest("wording", _VALUE.sub("<value>", normal_form(context)))[:16]


class Situations:
    """The situations of one agent, folded from its events."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._of: dict[str, str] = {}
        """By wording, the id of its situation."""
        self._merged: dict[str, str] = {}
        self._open: dict[str, None] = {}
        """Wordings that nobody has placed yet, oldest first."""
        self._done: Counter[str] = Counter()
        """How often each action was taken, anywhere."""

    def fold(self, event: Event) -> None:
        """Learn from one event: a decision, or the placing of a wording."""
        if event.kind == happened.SITUATION:
            self._arrange(event)
            return
        if event.kind != happened.DECISION or not (context := happened.text(event, "context").strip()):
            return
        key = wording(context)
        if key not in self._of:
            id = self._current(happened.text(event, "situation"))
            if id is None:
                self._open[key] = None
            kind = self._kinds.setdefault(id or event.subject, _Kind(id or event.subject))
            self._of[key] = kind.id
        kind = self._kinds[self._of[key]]
        if len(kind.texts) < TEXTS:
            kind.texts.setdefault(key, context[:LONGEST])
        action = normal_form(happened.text(event, "action"))
        kind.wordings.setdefault(key, Counter())[action] += 1
        kind.actions[action] += 1
        kind.recent.append((key, event.subject))
        self._done[action] += 1

    def of(self, context: str) -> str | None:
        """Give the id of the situation of a context, `None` for a wording that was never met."""
        return self._of.get(wording(context))

    def placed(self, context: str) -> str | None:
        """Give the id of the situation of a context that has been placed, or `None`."""
        key = wording(context)
        return None if key in self._open else self._of.get(key)

    def names(self) -> dict[str, str]:
        """Give the names that persons have given, by id of the situation."""
        return {kind.id: kind.name for kind in self._kinds.values() if kind.name}

    def is_open(self, context: str) -> bool:
        """Tell whether nobody has placed this context yet."""
        return wording(context) in self._open

    def open(self) -> list[str]:
        """List one decision of each context that nobody has placed yet, oldest first."""
        return [newest for key in self._open if (newest := self.newest(key))]

    def usual_action(self, context: str) -> str:
        """Give the action that was taken most often in contexts of this wording; empty if there is none."""
        key = wording(context)
        found = self._kinds[self._of[key]].wordings[key] if key in self._of else Counter[str]()
        return max(found, key=lambda action: (found[action], action), default="")

    def recent(self, id: str) -> list[str]:
        """List the newest decisions of a situation."""
        return [subject for _, subject in self._kinds[id].recent]

    def wordings(self, id: str) -> set[str]:
        """List the keys of all wordings of a situation."""
        return set(self._kinds[id].wordings)

    def key(self, id: str, context: str) -> str | None:
        """Give the key of a context of a situation, which may be cut as it is shown; `None` if it is not among them."""
        kind, key = self._kinds[id], wording(context)
        if key in kind.wordings:
            return key
        return next((own for own, text in kind.texts.items() if text == context), None)

    def newest(self, key: str) -> str:
        """Give the newest decision of a wording, empty if it is not among the newest of its situation."""
        kind = self._kinds[self._of[key]]
        return next((subject for own, subject in reversed(kind.recent) if own == key), "")

    def is_pinned(self, id: str) -> bool:
        """Tell whether a person has arranged this situation."""
        return self._kinds[id].pinned

    def name(self, id: str) -> str:
        """Give the name that a person gave it, else its commonest wording."""
        kind = self._kinds[id]
        return kind.name or _commonest(kind)

    def place(self, context: str, action: str, near: Iterable[Neighbour]) -> tuple[str | None, str | None]:
        """Find the situation that a context belongs to, and one that turns out to be the same as that.

        `near` are decisions in other contexts, the nearest first. Nothing is changed by asking.
        """
        done, closest = normal_form(action), dict[str, float]()
        own = self.of(context)
        for one in near:
            id = self.of(one.context)
            if id is not None and id != own:
                closest.setdefault(id, one.closeness)
        scores = {id: closeness + self._custom(id, done) for id, closeness in closest.items()}
        best = max(scores, key=lambda id: (scores[id], id), default=None)
        if best is None or scores[best] < JOIN:
            return None, None
        twin = next(
            (id for id, closeness in closest.items() if id != best and closeness >= MERGE and self._twins(id, best)),
            None,
        )
        return best, twin

    def find(self, name: str) -> str | None:
        """Give the id of the situation with this id, name or context."""
        if (id := self._current(name)) is not None:
            return id
        wanted = normal_form(name)
        named = [
            kind.id for kind in self._kinds.values() if kind.wordings and normal_form(self.name(kind.id)) == wanted
        ]
        return named[0] if len(named) == 1 else self.of(name)

    def listed(self) -> list[Situation]:
        """List the situations, the ones with most decisions first."""
        kinds = sorted(self._kinds.values(), key=lambda kind: (-kind.actions.total(), kind.id))
        return [self.shown(kind.id) for kind in kinds if kind.wordings]

    def shown(self, id: str) -> Situation:
        """Give one situation as it is shown to people."""
        kind = self._kinds[id]
        return Situation(
            id=id,
            name=self.name(id),
            pinned=kind.pinned,
            decisions=kind.actions.total(),
            wordings=len(kind.wordings),
            contexts=tuple(kind.texts[key] for key in sorted(kind.texts, key=lambda key: (-kind.times(key), key))),
            actions=dict(sorted(kind.actions.items(), key=lambda one: (-one[1], one[0]))),
        )

    def dump(self) -> JsonValue:
        """Give the whole state as JSON."""
        return {
            "kinds": [
                [
                    kind.id,
                    kind.name,
                    kind.pinned,
                    dict(sorted(kind.texts.items())),
                    {key: dict(sorted(actions.items())) for key, actions in sorted(kind.wordings.items())},
                    [[*one] for one in kind.recent],
                ]
                for kind in self._kinds.values()
            ],
            "merged": dict(sorted(self._merged.items())),
            "open": [*self._open],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Situations:
        """Give what `dump` gave."""
        found = cls()
        for id, name, pinned, texts, wordings, recent in state["kinds"]:
            kind = _Kind(id, name, pinned, dict(texts), {key: Counter(one) for key, one in wordings.items()})
            kind.actions = sum(kind.wordings.values(), Counter())
            kind.recent.extend((key, subject) for key, subject in recent)
            found._kinds[id] = kind
            found._of |= dict.fromkeys(wordings, id)
            found._done += kind.actions
        found._merged, found._open = dict(state["merged"]), dict.fromkeys(state["open"])
        return found

    def _current(self, id: str) -> str | None:
        while id in self._merged:
            id = self._merged[id]
        return id if id in self._kinds and self._kinds[id].wordings else None

    def _custom(self, id: str, action: str) -> float:
        """Say how much closer a context is to a situation for what is done in both."""
        here, everywhere = self._kinds[id].actions[action], self._done[action]
        if here:
            return SAME_ACTION * here / everywhere
        return -OTHER_ACTION if everywhere else 0.0

    def _twins(self, one: str, other: str) -> bool:
        mine, theirs = self._kinds[one], self._kinds[other]
        if mine.pinned or theirs.pinned or min(mine.actions.total(), theirs.actions.total()) < ENOUGH:
            return False
        together = sum(times * theirs.actions[action] for action, times in mine.actions.items())
        square = sum(times**2 for times in mine.actions.values()) * sum(times**2 for times in theirs.actions.values())
        return bool(together >= ALIKE * square**0.5)

    def _arrange(self, event: Event) -> None:
        """Do what an event says: place a wording, name, pin or merge; what is gone meanwhile is left alone."""
        key, id = happened.text(event, "wording"), self._current(happened.text(event, "situation"))
        by_hand = bool(event.body.get("by_hand"))
        if key:
            self._open.pop(key, None)
            if key in self._of and (by_hand or not self._kinds[self._of[key]].pinned):
                self._move(key, id or happened.text(event, "situation") or self._of[key])
                id = self._of[key]
        if id is None:
            return
        twin = self._current(happened.text(event, "twin"))
        if twin and (by_hand or not (self._kinds[id].pinned or self._kinds[twin].pinned)):
            self._merge(twin, id)
        kind = self._kinds[id]
        kind.name = happened.text(event, "name") or kind.name
        kind.pinned = bool(event.body.get("pinned", kind.pinned))

    def _move(self, key: str, id: str) -> None:
        old, new = self._kinds[self._of[key]], self._kinds.setdefault(id, _Kind(id))
        if old is new:
            return
        if len(old.wordings) == 1:
            self._merge(old.id, id)
            return
        actions = old.wordings.pop(key)
        old.actions -= actions
        new.actions += actions
        new.wordings[key] = actions
        if key in old.texts:
            new.texts[key] = old.texts.pop(key)
        moved = [one for one in old.recent if one[0] == key]
        old.recent = deque((one for one in old.recent if one[0] != key), RECENT)
        new.recent = _newest([*new.recent, *moved])
        self._of[key] = id

    def _merge(self, gone: str, into: str) -> None:
        if gone == into:
            return
        old, kind = self._kinds.pop(gone), self._kinds[into]
        kind.wordings |= old.wordings
        kind.actions += old.actions
        for key, text in old.texts.items():
            if len(kind.texts) < TEXTS:
                kind.texts[key] = text
        kind.recent = _newest([*kind.recent, *old.recent])
        self._of |= dict.fromkeys(old.wordings, into)
        self._merged[gone] = into


def _newest(recent: Iterable[tuple[str, str]]) -> deque[tuple[str, str]]:
    """Keep the newest; ids of memories are ordered by time."""
    return deque(sorted(recent, key=lambda one: one[1]), RECENT)


def _commonest(kind: _Kind) -> str:
    known = [(kind.times(key), text) for key, text in kind.texts.items()]
    return max(known, key=lambda one: (one[0], one[1]))[1] if known else kind.id
