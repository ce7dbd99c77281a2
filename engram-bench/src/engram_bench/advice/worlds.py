"""Make simulated teams from kinds of work: days of decisions with changing words, noise and drift.

A world is the same for the same kind and seed. Its rates are those of its kind, slightly varied; in some situations the
best action stops working on some day, and another one becomes the best, in one of them the habit. Nobody announces it.

The team of a world has three agents with one shared memory, and it does not learn. In each situation it takes its habit
about half of the time and the other actions otherwise, so that its log is a fair but noisy record of what works: texts
have typing errors, prefixes and afterthoughts, some outcomes are never recorded, and there are notes and errands about
other topics between.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engram_bench.advice.kinds import Errand, KindOfWork, Situation

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
DAYS = 28
AGENTS = ("ada", "bo", "cy")
TASKS = 60
"""Decisions per day, of all agents."""
HABIT = 0.45
"""Share of decisions taken by habit; the other actions share the rest."""
ERRANDS, NOTES = 0.15, 0.1
"""Errands and notes per decision."""
UNTOLD = 0.08
"""Share of decisions whose outcome is never recorded."""
DRIFT = 0.35
"""Share of situations in which the best action changes."""
BROKEN, RISEN = 0.08, 0.92
"""Success rates after a change of the formerly best action, and of the one that replaces it."""
FRESH = 2
"""Wordings of each situation used only by questions, never by the log."""
JITTER = 0.03
WORKS = 0.95
"""Success rate of an errand."""
EXPLAINED = 0.7
"""Share of failures recorded with an error message."""

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
class BestActionChange:
    """The day on which the best action of a situation stops working, and the one that works from then on."""

    day: int
    broken: str
    risen: str


@dataclass(frozen=True, slots=True)
class LogEntry:
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
class AdviceQuestion:
    """A context to be asked about."""

    situation: Situation
    text: str
    fresh: bool
    """True if the log never uses these words."""


class World:
    """One kind of work, simulated with one seed."""

    def __init__(self, kind: KindOfWork, seed: int, days: int = DAYS, tasks: int = TASKS) -> None:
        self.kind, self.seed, self.days, self.tasks = kind, seed, days, tasks
        self.agents = AGENTS
        rng = self._rng("world")
        """Return a random generator for a purpose of the caller, the same in every run."""
        self._rates = {
            each.name: {action: _jittered(rate, rng) for action, rate in each.actions.items()}
            for each in kind.situations
        }
        self._fresh = {each.name: frozenset(rng.sample(each.wordings, FRESH)) for each in kind.situations}
        self.changes: Mapping[str, BestActionChange] = dict(self._drift(rng))

    def rate(self, situation: Situation, action: str, day: float) -> float:
        """Return the success rate of an action in a situation on a day; 0 for an action of another situation."""
        change = self.changes.get(situation.name)
        if change is not None and day >= change.day:
            if action == change.broken:
                return BROKEN
            if action == change.risen:
                return RISEN
        return self._rates[situation.name].get(action, 0.0)

    def best(self, situation: Situation, day: float) -> str:
        """Return the action that works most often in a situation on a day."""
        return max(situation.actions, key=lambda action: self.rate(situation, action, day))

    def log(self, day: int) -> Iterator[LogEntry]:
        """Yield the entries of one day in order."""
        rng = self._rng(f"day {day}")
        for number in range(self.tasks):
            at = START + timedelta(days=day, hours=10 * number / self.tasks)
            agent = rng.choice(self.agents)
            yield self.decision(rng.choice(self.kind.situations), day, at, agent, rng)
            if rng.random() < ERRANDS:
                yield self._errand(rng.choice(self.kind.errands), at + timedelta(minutes=5), agent, rng)
            if rng.random() < NOTES:
                text = fill_places(rng.choice(self.kind.notes), self.kind, rng)
                yield LogEntry(at + timedelta(minutes=7), agent, None, text)

    def decision(
        self,
        situation: Situation,
        day: float,
        at: datetime,
        agent: str,
        rng: random.Random,
        action: str | None = None,
    ) -> LogEntry:
        """Take an action in a situation, by habit unless given, and draw its outcome."""
        action = action or _habitual(situation, rng)
        usual = [wording for wording in situation.wordings if wording not in self._fresh[situation.name]]
        text = add_noise(fill_places(rng.choice(usual), self.kind, rng), rng)
        good = rng.random() < self.rate(situation, action, day)
        told = rng.random() >= UNTOLD
        error = fill_places(rng.choice(self.kind.errors), self.kind, rng) if rng.random() < EXPLAINED else ""
        return LogEntry(at, agent, situation, text, action, good if told else None, error if told and not good else "")

    def question(self, situation: Situation, rng: random.Random) -> AdviceQuestion:
        """Word a situation anew, in any of its wordings."""
        wording = rng.choice(situation.wordings)
        text = add_noise(fill_places(wording, self.kind, rng), rng)
        return AdviceQuestion(situation, text, wording in self._fresh[situation.name])

    def rng(self, name: str) -> random.Random:
        """Return luck for a purpose of the caller's, the same in every run."""
        return self._rng(f"for {name}")

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"advice {self.kind.name} {self.seed} {name}")  # noqa: S311 - a simulation

    def _drift(self, rng: random.Random) -> Iterator[tuple[str, BestActionChange]]:
        number = max(1, round(DRIFT * len(self.kind.situations)))
        for place, situation in enumerate(rng.sample(self.kind.situations, number)):
            rates = self._rates[situation.name]
            best = max(rates, key=lambda action: rates[action])
            others = [action for action in rates if action not in {best, situation.habit}]
            risen = situation.habit if place == 0 else rng.choice(others)
            day = rng.randrange(int(0.4 * self.days), max(int(0.4 * self.days) + 1, int(0.6 * self.days)))
            yield situation.name, BestActionChange(day, best, risen)

    def _errand(self, errand: Errand, at: datetime, agent: str, rng: random.Random) -> LogEntry:
        text = add_noise(fill_places(errand.context, self.kind, rng), rng)
        return LogEntry(at, agent, None, text, errand.action, rng.random() < WORKS)


def kinds(*, held_out: bool) -> tuple[KindOfWork, ...]:
    """Return the kinds of work: those to develop on, or those held out."""
    if held_out:
        from engram_bench.advice import worlds_unseen  # noqa: PLC0415 - read only when they are measured

        return worlds_unseen.KINDS
    from engram_bench.advice import worlds_seen  # noqa: PLC0415

    return worlds_seen.KINDS


def fill_places(template: str, kind: KindOfWork, rng: random.Random) -> str:
    """Replace words in braces by random values."""
    return _PLACE.sub(lambda found: _value(found[1], kind, rng), template)


def add_noise(text: str, rng: random.Random) -> str:
    """Write a text as in haste: in lower case, with a typing error, a prefix or an afterthought."""
    if rng.random() < 0.15:
        text = text.lower()
    if rng.random() < 0.12:
        text = _mistyped(text, rng)
    if rng.random() < 0.12:
        text = rng.choice(_BEFORE) + text
    if rng.random() < 0.12:
        text += rng.choice(_AFTER).format(name=rng.choice(_NAMES).lower())
    return text


def _habitual(situation: Situation, rng: random.Random) -> str:
    if rng.random() < HABIT:
        return situation.habit
    return rng.choice([action for action in situation.actions if action != situation.habit])


def _jittered(rate: float, rng: random.Random) -> float:
    return min(0.97, max(0.03, rate + rng.uniform(-JITTER, JITTER)))


def _mistyped(text: str, rng: random.Random) -> str:
    place = rng.randrange(max(1, len(text) - 1))
    if rng.random() < 0.5:
        return text[:place] + text[place + 1 :]
    return text[:place] + text[place : place + 2][::-1] + text[place + 2 :]


def _value(name: str, kind: KindOfWork, rng: random.Random) -> str:
    if name in kind.places:
        return rng.choice(kind.places[name])
    match name:
        case "id":
            return str(rng.randrange(10_000, 999_999))
        case "n":
            return str(rng.randrange(2, 60))
        case "big":
            return f"{rng.randrange(2_000, 900_000):,}"
        case "hex":
            return f"{rng.randrange(16**8):08x}"
        case "name":
            return rng.choice(_NAMES)
        case "host":
            return rng.choice(_HOSTS).format(rng.randrange(1, 40))
        case "amount":
            return f"{rng.choice(('$', '€', 'USD '))}{rng.randrange(20, 90_000):,}"
        case "percent":
            return f"{rng.randrange(2, 98)}%"
        case "version":
            return f"{rng.randrange(1, 9)}.{rng.randrange(30)}.{rng.randrange(20)}"
        case "time":
            return f"{rng.randrange(24):02}:{rng.randrange(60):02}"
        case "date":
            return f"{rng.randrange(1, 29)} {rng.choice(_MONTHS)}"
    raise ValueError(f"{{{name}}} is no place of the kind {kind.name!r}")
