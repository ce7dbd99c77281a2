"""Make worlds from kinds of work: days of decisions in changing words, with noise, drift and irrelevant history.

A world is the same for the same kind and seed. Its rates are those of its kind, a little up or down; in some situations
the best action stops working on some day, and another one becomes the best, in one of them the habit. Nobody
announces that.

The team of a world has three agents with one memory between them, and it does not learn. In each situation it takes its
habit about half of the time and the other actions otherwise, so that its log is a fair record of what works, and a
noisy one: texts have typing errors, prefixes and afterthoughts, some outcomes are never told, and there are notes and
errands about other matters between.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engram_bench.advice.kinds import Errand, Kind, Situation

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
DAYS = 28
AGENTS = ("ada", "bo", "cy")
TASKS = 60
"""Decisions a day, of all agents."""
HABIT = 0.45
"""The share of decisions taken by habit; the other actions share the rest."""
ERRANDS, NOTES = 0.15, 0.1
"""Errands and notes for each decision."""
UNTOLD = 0.08
"""The share of decisions whose outcome is never told."""
DRIFT = 0.35
"""The share of situations in which the best action changes."""
BROKEN, RISEN = 0.08, 0.92
"""How often the best action works after a change, and the one that takes its place."""
FRESH = 2
"""Wordings of each situation that the log never uses, and only questions do."""
JITTER = 0.03
WORKS = 0.95
"""How often an errand works."""
EXPLAINED = 0.7
"""The share of failures that are recorded with a message."""

_PLACE = re.compile(r"\{(\w+)\}")
_NAMES = "Aisha Bruno Chen Daria Emeka Farid Greta Hiro Ines Jonas Kavya Liam Mona Noor Oskar Priya Rosa Sven".split()
_HOSTS = ("app-{}.internal", "db-{}.prod", "edge-{}.example.net", "node-{}", "gw{}.example.com")
_MONTHS = "January February March April May June July August September October November December".split()
_BEFORE = ("[urgent] ", "again: ", "FYI ", "re: ", "update - ", "hi, ", "q: ")
_AFTER = (
    " asap",
    " (second time this week)",
    ", any idea?",
    " - see thread",
    " pls help",
    ", as before",
    " fyi @{name}",
)


@dataclass(frozen=True, slots=True)
class Change:
    """The day on which the best action of a situation stops working, and the one that works from then on."""

    day: int
    broken: str
    risen: str


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the log: a decision in a situation, an errand, or a note."""

    at: datetime
    agent: str
    situation: Situation | None
    text: str
    """The context of a decision, or the text of a note."""
    action: str | None = None
    success: bool | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A context to be asked about."""

    situation: Situation
    text: str
    fresh: bool
    """True if the log never uses these words."""


class World:
    """One kind of work with the luck of one seed."""

    def __init__(self, kind: Kind, seed: int, days: int = DAYS, tasks: int = TASKS) -> None:
        self.kind, self.seed, self.days, self.tasks = kind, seed, days, tasks
        self.agents = AGENTS
        luck = self._luck("world")
        self._rates = {
            each.name: {action: _jittered(rate, luck) for action, rate in each.actions.items()}
            for each in kind.situations
        }
        self._fresh = {each.name: frozenset(luck.sample(each.wordings, FRESH)) for each in kind.situations}
        self.changes: Mapping[str, Change] = dict(self._drift(luck))

    def rate(self, situation: Situation, action: str, day: float) -> float:
        """Return how often an action works in a situation on a day; 0 for an action that is none of the situation's."""
        change = self.changes.get(situation.name)
        if change is not None and day >= change.day:
            if action == change.broken:
                return BROKEN
            if action == change.risen:
                return RISEN
        return self._rates[situation.name].get(action, 0.0)

    def best(self, situation: Situation, day: float) -> str:
        """Name the action that works most often in a situation on a day."""
        return max(situation.actions, key=lambda action: self.rate(situation, action, day))

    def log(self, day: int) -> Iterator[Event]:
        """Return the entries of one day in order."""
        luck = self._luck(f"day {day}")
        for number in range(self.tasks):
            at = START + timedelta(days=day, hours=10 * number / self.tasks)
            agent = luck.choice(self.agents)
            yield self.decision(luck.choice(self.kind.situations), day, at, agent, luck)
            if luck.random() < ERRANDS:
                yield self._errand(luck.choice(self.kind.errands), at + timedelta(minutes=5), agent, luck)
            if luck.random() < NOTES:
                text = filled(luck.choice(self.kind.notes), self.kind, luck)
                yield Event(at + timedelta(minutes=7), agent, None, text)

    def decision(
        self,
        situation: Situation,
        day: float,
        at: datetime,
        agent: str,
        luck: random.Random,
        action: str | None = None,
    ) -> Event:
        """Take an action in a situation, by habit unless it is given, and see how it goes."""
        action = action or _habitual(situation, luck)
        usual = [wording for wording in situation.wordings if wording not in self._fresh[situation.name]]
        text = noisy(filled(luck.choice(usual), self.kind, luck), luck)
        good = luck.random() < self.rate(situation, action, day)
        told = luck.random() >= UNTOLD
        error = filled(luck.choice(self.kind.errors), self.kind, luck) if luck.random() < EXPLAINED else ""
        return Event(at, agent, situation, text, action, good if told else None, error if told and not good else "")

    def question(self, situation: Situation, luck: random.Random) -> Question:
        """Word a situation anew; in words that the log never uses as often as any other."""
        wording = luck.choice(situation.wordings)
        text = noisy(filled(wording, self.kind, luck), luck)
        return Question(situation, text, wording in self._fresh[situation.name])

    def luck(self, name: str) -> random.Random:
        """Return luck for a purpose of the caller's, the same in every run."""
        return self._luck(f"for {name}")

    def _luck(self, name: str) -> random.Random:
        return random.Random(f"advice {self.kind.name} {self.seed} {name}")  # noqa: S311 - a simulation

    def _drift(self, luck: random.Random) -> Iterator[tuple[str, Change]]:
        number = max(1, round(DRIFT * len(self.kind.situations)))
        for place, situation in enumerate(luck.sample(self.kind.situations, number)):
            rates = self._rates[situation.name]
            best = max(rates, key=lambda action: rates[action])
            others = [action for action in rates if action not in {best, situation.habit}]
            risen = situation.habit if place == 0 else luck.choice(others)
            day = luck.randrange(int(0.4 * self.days), max(int(0.4 * self.days) + 1, int(0.6 * self.days)))
            yield situation.name, Change(day, best, risen)

    def _errand(self, errand: Errand, at: datetime, agent: str, luck: random.Random) -> Event:
        text = noisy(filled(errand.context, self.kind, luck), luck)
        return Event(at, agent, None, text, errand.action, luck.random() < WORKS)


def kinds(*, held_out: bool) -> tuple[Kind, ...]:
    """List the kinds of work: those to develop on, or those that are held out."""
    if held_out:
        from engram_bench.advice import worlds_unseen  # noqa: PLC0415 - read only when they are measured

        return worlds_unseen.KINDS
    from engram_bench.advice import worlds_seen  # noqa: PLC0415

    return worlds_seen.KINDS


def filled(template: str, kind: Kind, luck: random.Random) -> str:
    """Put values into the places of a text, each time others."""
    return _PLACE.sub(lambda found: _value(found[1], kind, luck), template)


def noisy(text: str, luck: random.Random) -> str:
    """Write a text as people do in haste: in lower case, with a typing error, a prefix or an afterthought."""
    if luck.random() < 0.15:
        text = text.lower()
    if luck.random() < 0.12:
        text = _mistyped(text, luck)
    if luck.random() < 0.12:
        text = luck.choice(_BEFORE) + text
    if luck.random() < 0.12:
        text += luck.choice(_AFTER).format(name=luck.choice(_NAMES).lower())
    return text


def _habitual(situation: Situation, luck: random.Random) -> str:
    if luck.random() < HABIT:
        return situation.habit
    return luck.choice([action for action in situation.actions if action != situation.habit])


def _jittered(rate: float, luck: random.Random) -> float:
    return min(0.97, max(0.03, rate + luck.uniform(-JITTER, JITTER)))


def _mistyped(text: str, luck: random.Random) -> str:
    place = luck.randrange(max(1, len(text) - 1))
    if luck.random() < 0.5:
        return text[:place] + text[place + 1 :]
    return text[:place] + text[place : place + 2][::-1] + text[place + 2 :]


def _value(name: str, kind: Kind, luck: random.Random) -> str:
    if name in kind.places:
        return luck.choice(kind.places[name])
    match name:
        case "id":
            return str(luck.randrange(10_000, 999_999))
        case "n":
            return str(luck.randrange(2, 60))
        case "big":
            return f"{luck.randrange(2_000, 900_000):,}"
        case "hex":
            return f"{luck.randrange(16**8):08x}"
        case "name":
            return luck.choice(_NAMES)
        case "host":
            return luck.choice(_HOSTS).format(luck.randrange(1, 40))
        case "amount":
            return f"{luck.choice(('$', '€', 'USD '))}{luck.randrange(20, 90_000):,}"
        case "percent":
            return f"{luck.randrange(2, 98)}%"
        case "version":
            return f"{luck.randrange(1, 9)}.{luck.randrange(30)}.{luck.randrange(20)}"
        case "time":
            return f"{luck.randrange(24):02}:{luck.randrange(60):02}"
        case "date":
            return f"{luck.randrange(1, 29)} {luck.choice(_MONTHS)}"
    raise ValueError(f"{{{name}}} is no place of the kind {kind.name!r}")
