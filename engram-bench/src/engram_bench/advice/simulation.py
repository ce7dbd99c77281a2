"""Record the log of a simulated team as its agents would, ask for suggestions daily, and judge them by the true rates.

Questions do not change the log, and suggestions are not followed: a suggestion is worth the rate at which it truly
works there on that day. When the best action of a situation breaks and another one becomes best, the same question is
asked again after every outcome of either, until the suggestion has changed, and the outcomes needed are counted. Only
after the last day does an agent follow the suggestions, while the best actions of some more situations break.

Everything goes through the public interface with default settings; the clock is that of the world. The agents of a team
share one memory.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from engram import config, wiring
from engram.clock import Sources
from engram.engine import Engram
from engram.model import Clean, split_clean
from engram.ports import Embedder, Matrix, Purpose
from engram_bench.advice import off_topic
from engram_bench.advice.kinds import KindOfWork, Situation
from engram_bench.advice.worlds import BROKEN, DAYS, START, AdviceQuestion, BestActionChange, LogEntry, World
from engram_bench.cached_embedder import CachedEmbedder

Arm = Literal["habit", "random", "no memory", "placebo", "engram", "engram with circumstances", "oracle"]
ARMS: tuple[Arm, ...] = ("habit", "random", "no memory", "placebo", "engram", "engram with circumstances", "oracle")
MEMORY_ARMS: tuple[Arm, ...] = ("no memory", "placebo", "engram", "engram with circumstances")
"""Arms that ask a memory."""
DEFAULT_ARMS: tuple[Arm, ...] = ("engram", "engram with circumstances")
"""Arms whose intervals, checks and answers to other questions are measured as well."""
TEAM = "team"
"""The agent name under which all agents of a world record and ask."""
WARM_UP_DAYS = 8
"""Days before the figures count; those of the whole time are reported beside them."""
PREDICT_EVERY = 3
"""Days between requests for rates, which take most of the time."""
KNOWN_AFTER, NOTICED_AFTER = 3, 6
"""Outcomes of an action after which a check should know it, and after which a change should be noticed."""
FAILS, WORKS = 0.3, 0.8
"""Success rates below which a check should refuse an action, and from which it should allow it."""
PATIENCE = 30
"""Outcomes after which waiting for a changed suggestion ends."""
BREAKS = 2
"""Situations in which the best action breaks after the last day."""
TRIES = 8
"""Wordings tried to find one for which an action is suggested before it breaks."""

_WHOLE = re.compile(r"(?<=.)\n[^\n]+ → (?:success|failure)\Z", re.DOTALL)
"""The end of a decision's whole text: its action and outcome, after the context."""

Counts = dict[str, tuple[float, float]]
"""For each figure, a sum and its number of cases."""


class Circumstances(TypedDict, total=False):
    """The circumstances of a decision or a question."""

    tool: str
    environment: str
    task_type: str


class ContextEmbedder(CachedEmbedder):
    """A cached embedder that gives the whole text of a decision the vector of its context.

    Several arms store and ask the same texts. Advice searches the contexts of decisions, never their whole texts, which
    only recall would find.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder, chunk=1)  # one by one: worlds run in processes, threads would only wait

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text, in order."""
        return super().embed([row for text in texts for row in split_clean(text, _context_of)], purpose)


class Clock(Sources):
    """A clock that is set by the world, with a seeded random generator."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.moment = START
        self.random = random.Random(seed)  # noqa: S311 - a simulation

    def now(self) -> datetime:
        """Return the time of the world, a little later each time."""
        self.moment += timedelta(milliseconds=1)
        return self.moment


@dataclass(slots=True)
class ArmRun:
    """The answers in one world and arm: figures, and one row per question."""

    kind: str
    seen: bool
    seed: int
    arm: str
    counts: Counts = field(default_factory=dict)
    parts: dict[str, Counts] = field(default_factory=dict)
    """Figures by situation."""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def count(self, name: str, value: float, part: str) -> None:
        """Add a case to a figure, in a situation or for a question off topic."""
        for counts in (self.counts, self.parts.setdefault(part, {})):
            total, cases = counts.get(name, (0.0, 0.0))
            counts[name] = (total + value, cases + 1)


def open_memory(seed: int, embedder: Embedder) -> tuple[Engram, Clock]:
    """Open an empty memory with default settings, on a clock that can be set."""
    clock, chosen = Clock(seed), config.load({"db": ":memory:", "vectors": ""})
    store = wiring.open_store(chosen, clock)
    redactor = wiring.choose_redactor(chosen, store)
    brain = Engram(store, embedder=lambda: embedder, redactor=redactor, sources=clock, say=_ignore)
    return brain, clock


def default_embedder(name: str | None = None) -> Embedder:
    """Return an embedder by name, or the one that Engram uses by default."""
    with wiring.open(":memory:", embedder=name) as brain:
        return brain.embedder


def run_world(kind: KindOfWork, seed: int, *, days: int = DAYS, embedder: Embedder) -> list[ArmRun]:
    """Run all arms in one world."""
    world, cached = World(kind, seed, days), ContextEmbedder(embedder)
    return [_Arm(world, arm, cached).run() for arm in ARMS]


@dataclass(slots=True)
class _Watch:
    """A question asked again after every outcome of the two actions of a change."""

    situation: Situation
    change: BestActionChange
    text: str
    done: Counter[str] = field(default_factory=Counter)
    """Outcomes of each action since the change."""
    given_up: bool = False
    """True once the broken action is no longer suggested."""
    taken_up: bool = False
    """True once the action that works now is suggested."""


class _Arm:
    """One arm in one world."""

    def __init__(self, world: World, arm: Arm, embedder: Embedder) -> None:
        self.world, self.arm = world, arm
        self.out = ArmRun(world.kind.name, world.kind.seen, world.seed, arm)
        self.brain, self.clock = open_memory(world.seed, embedder)
        self.team = self.brain.agent(TEAM)
        self._exchange = world.rng("placebo")
        self._told: dict[tuple[str, str], list[int]] = defaultdict(list)
        """By situation and action, the days of its outcomes."""
        self._watches: dict[str, _Watch] = {}

    def run(self) -> ArmRun:
        with self.brain:
            for day in range(self.world.days):
                if self.arm in DEFAULT_ARMS:
                    self._watch(day)
                self._work(day)
                self._ask(day)
            if self.arm in DEFAULT_ARMS:
                self._end_watches()
                self._ask_other_matters()
                self._break()
        return self.out

    def _work(self, day: int) -> None:
        events = list(self.world.log(day))
        if self.arm == "placebo":
            events = self._exchanged(events)
        for event in events:
            if self.arm in MEMORY_ARMS and self.arm != "no memory":
                self._record(event)
            if event.situation is not None and event.success is not None:
                self._told[event.situation.name, event.action or ""].append(day)
                self._look(event)

    def _exchanged(self, events: Sequence[LogEntry]) -> list[LogEntry]:
        """Give every decision the words of another one of that day, in another situation."""
        found = []
        for event in events:
            others = [
                each.text
                for each in events
                if event.situation and each.situation and each.situation.name != event.situation.name
            ]
            found.append(replace(event, text=self._exchange.choice(others)) if others else event)
        return found

    def _record(self, event: LogEntry) -> None:
        self.clock.moment = max(event.at, self.clock.moment)
        if event.action is None:
            self.team.remember(event.text)
            return
        self.team.record_decision(
            context=event.text,
            action=event.action,
            outcome=None if event.success is None else "success" if event.success else "failure",
            error=event.error,
            **self._circumstances(event.situation),
        )

    def _circumstances(self, situation: Situation | None) -> Circumstances:
        if situation is None or self.arm != "engram with circumstances":
            return {}
        return {"tool": situation.tool, "environment": situation.environment, "task_type": situation.task_type}

    def _ask(self, day: int) -> None:
        """Ask about every situation once, at the end of a day."""
        rng = self.world.rng(f"questions {day}")
        self.clock.moment = max(self.clock.moment, START + timedelta(days=day, hours=11))
        for situation in self.world.kind.situations:
            question = self.world.question(situation, rng)
            self._judge(question, *self._answer(question, day, rng), day)
            if self.arm in DEFAULT_ARMS and day >= WARM_UP_DAYS:
                self._check(question, day)
                if day % PREDICT_EVERY == WARM_UP_DAYS % PREDICT_EVERY:
                    self._predict(question, day)

    def _answer(self, question: AdviceQuestion, day: int, rng: random.Random) -> tuple[str | None, str]:
        """Return an action or `None`, and the reason a memory gives."""
        situation = question.situation
        guess = rng.choice(sorted(situation.actions))
        match self.arm:
            case "habit":
                return situation.habit, ""
            case "random":
                return guess, ""
            case "oracle":
                return self.world.best(situation, day), ""
            case _:
                found = self.team.suggest(context=question.text, **self._circumstances(situation))
                return found.recommended, found.reason

    def _suggested(self, text: str, situation: Situation) -> str | None:
        return self.team.suggest(context=text, **self._circumstances(situation)).recommended

    def _judge(self, question: AdviceQuestion, answer: str | None, reason: str, day: int) -> None:
        situation, out = question.situation, self.out
        best = self.world.rate(situation, self.world.best(situation, day), day)
        habit = self.world.rate(situation, situation.habit, day)
        worth = habit if answer is None else self.world.rate(situation, answer, day)
        foreign = answer is not None and answer not in situation.actions
        out.count("recommended, all days", answer is not None, situation.name)
        if answer is not None:
            out.count("foreign, all days", foreign, situation.name)
            out.count("success, all days", worth, situation.name)
        if day >= WARM_UP_DAYS:
            out.count("recommended", answer is not None, situation.name)
            out.count("success if followed, else habit", worth, situation.name)
            out.count("regret", best - worth, situation.name)
        if day >= WARM_UP_DAYS and answer is not None:
            out.count("foreign", foreign, situation.name)
            out.count("success", worth, situation.name)
            out.count("success in new words" if question.fresh else "success in known words", worth, situation.name)
        out.rows.append(
            {
                "kind": out.kind,
                "seed": out.seed,
                "arm": self.arm,
                "day": day + 1,
                "situation": situation.name,
                "context": question.text,
                "new_words": question.fresh,
                "recommended": answer,
                "reason": reason,
                "foreign": foreign,
                "rate": None if answer is None else round(worth, 4),
                "best_rate": round(best, 4),
            }
        )

    def _check(self, question: AdviceQuestion, day: int) -> None:
        """Check each action that clearly should be allowed, or that clearly should not and is known."""
        situation, around = question.situation, self._circumstances(question.situation)
        for action in situation.actions:
            rate = self.world.rate(situation, action, day)
            known = len(self._since(question, action, day)) >= KNOWN_AFTER
            if not known or FAILS < rate < WORKS:
                continue
            refused = self.team.check(action=action, context=question.text, **around).decision != "allow"
            if rate >= WORKS:
                self.out.count("false blocks", refused, situation.name)
            else:
                self.out.count("missed blocks", not refused, situation.name)
                if not question.fresh:
                    self.out.count("missed blocks in known words", not refused, situation.name)

    def _predict(self, question: AdviceQuestion, day: int) -> None:
        """Predict every action that was taken there, and count whether the interval contains its true rate."""
        situation = question.situation
        change = self.world.changes.get(situation.name)
        for action in situation.actions:
            if not self._told[situation.name, action]:
                continue
            told = self.team.predict(context=question.text, action=action, **self._circumstances(situation))
            low, high = told.interval
            held = low <= self.world.rate(situation, action, day) <= high
            self.out.count("coverage", held, situation.name)
            self.out.count(
                "coverage in new words" if question.fresh else "coverage in known words", held, situation.name
            )
            self.out.count("width", high - low, situation.name)
            if change is not None and day >= change.day and action in {change.broken, change.risen}:
                late = len(self._since(question, action, day)) >= NOTICED_AFTER
                self.out.count(
                    "coverage after a change" if late else "coverage just after a change", held, situation.name
                )

    def _since(self, question: AdviceQuestion, action: str, day: int) -> list[int]:
        """List the days of an action's outcomes since it last changed."""
        days = self._told[question.situation.name, action]
        change = self.world.changes.get(question.situation.name)
        if change is None or day < change.day or action not in {change.broken, change.risen}:
            return days
        return [each for each in days if each >= change.day]

    def _ask_other_matters(self) -> None:
        for text in off_topic.QUESTIONS:
            answer = self.team.suggest(context=text).recommended
            self.out.count("off-topic", answer is not None, text)
            row = {"kind": self.out.kind, "seed": self.out.seed, "arm": self.arm, "off_topic": True}
            self.out.rows.append({**row, "context": text, "recommended": answer})

    def _watch(self, day: int) -> None:
        """Begin to watch the situations that change today, if the action that will break is recommended until now."""
        for situation in self.world.kind.situations:
            change = self.world.changes.get(situation.name)
            if change is not None and change.day == day:
                text = self._recommending(situation, change.broken, self.world.rng(f"watch {situation.name}"))
                if text is not None:
                    self._watches[situation.name] = _Watch(situation, change, text)

    def _recommending(self, situation: Situation, action: str, rng: random.Random) -> str | None:
        """Find words for a situation by which an action is recommended: what is not cannot be seen to be given up."""
        texts = (self.world.question(situation, rng).text for _ in range(TRIES))
        return next((text for text in texts if self._suggested(text, situation) == action), None)

    def _look(self, event: LogEntry) -> None:
        """Ask again after an outcome of an action that has changed."""
        watch = self._watches.get(event.situation.name if event.situation else "")
        if watch is None or event.action not in {watch.change.broken, watch.change.risen}:
            return
        watch.done[event.action] += 1
        answer = self._suggested(watch.text, watch.situation)
        if answer != watch.change.broken and not watch.given_up:
            watch.given_up = True
            self._count_given_up(watch.done[watch.change.broken], watch.situation)
        if answer == watch.change.risen:
            watch.taken_up = True
            self._count_taken_up(watch.done[watch.change.risen], watch.situation)
        if watch.taken_up or watch.done.total() >= PATIENCE:
            self._end_watch(self._watches.pop(watch.situation.name))

    def _end_watches(self) -> None:
        while self._watches:
            self._end_watch(self._watches.popitem()[1])

    def _end_watch(self, watch: _Watch) -> None:
        """Count as late what was not noticed within enough outcomes; fewer outcomes count as nothing."""
        lost, won = watch.done[watch.change.broken], watch.done[watch.change.risen]
        if not watch.given_up and lost > NOTICED_AFTER:
            self._count_given_up(lost, watch.situation)
        if not watch.taken_up and won > NOTICED_AFTER:
            self._count_taken_up(won, watch.situation)

    def _count_given_up(self, outcomes: int, situation: Situation) -> None:
        self.out.count("outcomes until given up", outcomes, situation.name)
        self.out.count("given up within six", outcomes <= NOTICED_AFTER, situation.name)

    def _count_taken_up(self, outcomes: int, situation: Situation) -> None:
        self.out.count("outcomes of the new best until recommended", outcomes, situation.name)

    def _break(self) -> None:
        """Break the best action of some situations, and count the outcomes until it is no longer suggested."""
        rng = self.world.rng("break")
        steady = [each for each in self.world.kind.situations if each.name not in self.world.changes]
        for situation in rng.sample(steady, min(BREAKS, len(steady))):
            self._break_one(situation, rng)

    def _break_one(self, situation: Situation, rng: random.Random) -> None:
        best = self.world.best(situation, self.world.days)
        text = self._recommending(situation, best, rng)
        if text is None:
            return
        done = 0
        while done < PATIENCE and self._suggested(text, situation) == best:
            self._follow(situation, best, BROKEN, rng)
            done += 1
        self._count_given_up(done, situation)

    def _follow(self, situation: Situation, action: str, rate: float, rng: random.Random) -> None:
        self.clock.moment += timedelta(hours=1)
        good = rng.random() < rate
        self.team.record_decision(
            context=self.world.question(situation, rng).text,
            action=action,
            outcome="success" if good else "failure",
            **self._circumstances(situation),
        )


def _context_of(text: str) -> list[str]:
    return [_WHOLE.sub("", text)]


def _ignore(message: str) -> None:
    """Drop notices: the same one would come for every arm."""
