"""The learning of one agent: record decisions and failures, and advise before it acts.

Texts that come in here have passed the redactor.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from random import Random
from types import MappingProxyType

from pydantic import JsonValue

from engram.clock import Sources
from engram.errors import Conflict, Hint, InvalidInput, NotFound
from engram.learning import events as happened
from engram.learning import reuse, scores
from engram.learning.actions.history import SAME_SITUATION, SIMILAR_SITUATION, SituationView
from engram.learning.alarms import Alarm, alarms, capped
from engram.learning.avoided_failures import spared
from engram.learning.decisions.agreement import agreement
from engram.learning.decisions.belief import SAME, DecisionEpisode, Groups, GroupTotals, is_related
from engram.learning.decisions.suggestions import DecisionEvaluator, episodes_of
from engram.learning.events import Circumstances
from engram.learning.patterns.synthesis import KnowledgeSynthesizer
from engram.learning.prevention import check_commands, verdicts
from engram.learning.situations import nearness
from engram.learning.situations.nearness import DEFAULT_NEARNESS, Nearness, relative_closeness
from engram.learning.situations.situations import Neighbour, Situations
from engram.learning.situations.wordings import is_contrast, word_stems, wording_key
from engram.learning.state import Experience, Learned
from engram.model import (
    Calibration,
    Clean,
    FailurePattern,
    HarmfulMemory,
    LearningStats,
    Memory,
    MemoryType,
    Prediction,
    PreventionCheck,
    RecordedOutcome,
    Suggestion,
    Verdict,
)
from engram.model.success import Synthesis
from engram.ports import (
    CreditsRecalls,
    Event,
    Filter,
    KeepsEvents,
    LoggedRecall,
    LogsRecalls,
    Placed,
    Query,
    Scope,
    Store,
)
from engram.ports.arguments import share
from engram.ports.completed import can, require
from engram.text.terms import normal_form

CONTEXTS = "contexts"
"""The namespace of vectors of contexts alone, by which similar situations are found."""
MOST_EPISODES = 10_000
NEIGHBOURS = 256
COMPARED = 24
"""Neighbours among which the nearest decision is looked for."""
SAMPLED, WIDELY = 40, 64
"""Contexts that tell what closeness means in a memory, and how many near each are looked at."""
FEW, GROWTH = 30, 3
"""Decisions above which it is told, and how often it is told again while they double."""
CREDITS = 5000
MET_FOR = timedelta(hours=1)
"""For so long what a check verified is taken to be so."""
ALMOST = 0.999
"""The similarity of contexts in other words that an embedder cannot tell apart, such as the same in another order."""
PAGE = 2000
PATTERN = "pattern"
"""Marks, in what is noted about something shown, that it was a pattern."""
Near = Callable[[Clean], Placed | None]
"""A function that returns the vector of a context."""
Usual = Callable[[Clean], float | None]
"""A function that returns the similarity of a context to unrelated texts."""


@dataclass(frozen=True, slots=True)
class Testimony:
    """What somebody else knows about a context, whose voice it is, and how its actions went for it."""

    voice: str
    episodes: Sequence[DecisionEpisode]
    pairs: Mapping[tuple[str, str], tuple[float, float]]
    source: str = ""
    """The topic by which an agent keeps how far this source helped it, where it was lent."""


@dataclass(frozen=True, slots=True)
class OutcomeDetails:
    """Details of an outcome besides its quality."""

    error: str = ""
    duration: float | None = None
    cost: float | None = None

    def is_in(self, event: Event) -> bool:
        """Tell whether an event has all of it already."""
        told = (happened.text(event, "error"), happened.number(event, "duration"), happened.number(event, "cost"))
        given = (self.error or told[0], self.duration, self.cost)
        return all(new is None or new == old for new, old in zip(given, told, strict=True))


class Learning:
    """One agent's learning. Several can be asked together: each brings its own evidence, and all count alike."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        experience: Experience,
        sources: Sources,
        near: Near,
        clean: Callable[[str, str], Clean],
        usual: Usual = lambda _: None,
        unrelated: Callable[[], float] = lambda: 1.0,
        *,
        notes_shown: bool = False,
    ) -> None:
        self._notes_shown = notes_shown
        self._clean = clean
        self._usual = usual
        self._unrelated = unrelated
        self._store = store
        self._keeps_events = can(store, KeepsEvents)
        self._scope = scope
        self.voice = scope.agent
        """The name that groups testimonies of one source, so that they are counted together."""
        self._experience = experience
        self._sources = sources
        self._near = near
        self._evaluator = DecisionEvaluator()
        self._synthesizer = KnowledgeSynthesizer()

    # Decisions -----------------------------------------------------------------------------------------

    def suggest(
        self,
        context: Clean,
        around: Circumstances,
        actions: Sequence[Clean] | None,
        *,
        explore: Random | None = None,
        known: Evidence | None = None,
    ) -> Suggestion:
        """Suggest what to do in a context, from the evidence that is `known`, or from that of this agent alone."""
        now, known = self._sources.now(), known or self.evidence(context, around)
        suggestion = self._evaluator.suggest(
            context,
            known.episodes,
            now=now,
            groups=known.groups,
            features=around.features(),
            actions=actions,
            explore=explore,
            usual=self._usual(context) if known.episodes else None,
            nearness=known.nearness(context),
        )
        names = (each._situation_name(context, known.episodes, suggestion) for each in known.agents)
        named = {"id": self._sources.new_id(), "situation": next(filter(None, names), "")}
        suggestion = suggestion.model_copy(update=named)
        if explore is None:
            for each in known.asked:
                whose = f" of {each._scope.agent}" if len(known.asked) > 1 else ""
                suggestion = each._unless_blocked(suggestion, context, around, whose)
        return suggestion

    def _unless_blocked(self, suggestion: Suggestion, context: Clean, around: Circumstances, whose: str) -> Suggestion:
        """Take back the recommendation of an action that a check would block: advice does not contradict itself."""
        if suggestion.recommended is None:
            return suggestion
        verdict = self.verdict(self._clean("action", suggestion.recommended), context, around)
        if verdict.decision != "block":
            return suggestion
        reason = f"{suggestion.recommended} would be blocked by a check{whose}: {verdict.reason}"
        return suggestion.model_copy(
            update={"recommended": None, "abstained": True, "reason": reason, "confidence": None}
        )

    def predict(
        self, context: Clean, action: Clean, around: Circumstances, known: Evidence | None = None
    ) -> Prediction:
        """Predict whether an action will succeed in a context, from the same evidence as `suggest`."""
        known = known or self.evidence(context, around)
        return self._evaluator.predict(
            context,
            action,
            known.episodes,
            now=self._sources.now(),
            groups=known.groups,
            features=around.features(),
            usual=self._usual(context) if known.episodes else None,
            nearness=known.nearness(context),
        )

    def _situation_name(self, context: Clean, episodes: Sequence[DecisionEpisode], suggestion: Suggestion) -> str:
        """Name the situation of a context, or for a new wording, of the nearest one that counted."""
        counted = set(suggestion.evidence)
        nearest = max(
            (one for one in episodes if one.id in counted and one.agent == self._scope.agent),
            key=lambda one: (one.similarity, one.id),
            default=None,
        )
        with self._experience.of(self._scope) as learned:
            id = learned.situations.of(context) or (learned.situations.of(nearest.context) if nearest else None)
            return learned.situations.name(id) if id else ""

    def testimony(self, context: Clean, near: Near | None = None) -> Testimony:
        """Return what this agent knows about a context, for another agent that may learn from it."""
        episodes = self.episodes(context, near)
        if not episodes:
            return Testimony(self.voice, (), {})
        with self._experience.of(self._scope) as learned:
            return Testimony(self.voice, episodes, learned.rates.pairs())

    def episodes(self, context: Clean, near: Near | None = None) -> list[DecisionEpisode]:
        """The decisions taken in this context and in similar ones, whose outcome is known.

        Who asks several about one context gives a `near` that remembers where it is.
        """
        store, scope = self._store, self._scope
        if not self._keeps_events:
            where = Filter(kinds=frozenset({MemoryType.DECISION}), context_key=normal_form(context))
            ids = [match.id for match in store.search(scope, Query(where=where, limit=MOST_EPISODES))]
            return episodes_of(memory for memory in store.get(scope, ids) if memory is not None)
        exact = store.events_by_topic(scope, happened.topic(context), MOST_EPISODES)
        placed = (near or self._near)(context)
        found = [] if placed is None else store.search(scope, Query(near=placed, limit=NEIGHBOURS))
        known = {event.subject for event in exact}
        similarity = dict.fromkeys(known, 1.0) | {match.id: match.score for match in found if match.id not in known}
        similar = store.events_of(scope, [match.id for match in found if match.id not in known])
        episodes = happened.episodes([*exact, *similar], scope.agent, similarity, attempts=True)
        return self._situated(store, context, episodes)

    def _situated(self, store: KeepsEvents, context: Clean, episodes: list[DecisionEpisode]) -> list[DecisionEpisode]:
        """Mark the episodes of the same situation, and add those that only the situation finds."""
        if not episodes:
            return episodes
        usual = self._usual(context)
        known = DEFAULT_NEARNESS if usual is None else self._nearness(context)
        contrasts = _contrasts(context, episodes)
        with self._experience.of(self._scope) as learned:
            situations = learned.situations
            rivals = set(situations.find_by_words(context))
            rivals = rivals if len(rivals) > 1 else set()
            own = situations.find_like(context)
            if own is None and usual is not None and not rivals:
                own = situations.nearest(_neighbours(context, episodes, usual), known)
            of = {one.id: situations.of(one.context) for one in episodes}
            apart = rivals - {own} | (
                situations.different_from(own, {id for id in of.values() if id}) if own else set()
            )
            like = {of[one.id] for one in episodes if one.context not in contrasts}
            apart |= {id for id in of.values() if id and id != own and id not in like}
            same = {id: _sameness(situation, own, apart) for id, situation in of.items()}
            missing = [id for id in situations.recent(own) if id not in same] if own else []
        newer = store.events_of(self._scope, missing) if missing else []
        more = happened.episodes(newer, self._scope.agent, {}, attempts=True)
        foreign = {one.id for one in episodes if one.context in contrasts and of[one.id] != own}
        marked = [
            replace(
                one,
                same_situation=False if one.id in foreign else same[one.id],
                similarity=_likeness(context, one),
            )
            for one in episodes
        ]
        return marked + [replace(one, same_situation=True) for one in more]

    def evidence(
        self,
        context: Clean,
        around: Circumstances,
        others: Sequence[Testimony] = (),
        beside: Sequence[Beside] = (),
        near: Near | None = None,
    ) -> Evidence:
        """Gather the evidence about a context: of this agent and what `others` lent it, and of the agents `beside` it.

        The evidence of each agent counts alike, in any order; agents without any are left out. An episode that one
        agent owns and another one was lent counts once, as that of its owner.
        """
        now = self._sources.now()
        every = sorted([(self, others), *beside], key=lambda one: one[0]._scope.agent)
        known = [
            Evidence((each,), (each,), each._pool(each.episodes(context, near), lent), each._groups(around, now))
            for each, lent in every
        ]
        if len(known) == 1:
            return known[0]
        joint = _joint([each for each in known if self._tells(context, around, each, now)] or known)
        return replace(joint, asked=(self, *(agent for agent, _ in beside)))

    def _tells(self, context: Clean, around: Circumstances, known: Evidence, now: datetime) -> bool:
        """Tell whether any decision that an agent knows counts in a context."""
        return bool(
            known.episodes
            and self._evaluator.suggest(
                context,
                known.episodes,
                now=now,
                groups=known.groups,
                features=around.features(),
                usual=self._usual(context),
                nearness=known.nearness(context),
            ).evidence
        )

    def _pool(self, episodes: list[DecisionEpisode], others: Sequence[Testimony]) -> list[DecisionEpisode]:
        """Add to the agent's own episodes those of others, with the weight that their agreement with it earns."""
        if not others:
            return episodes
        with self._experience.of(self._scope) as learned:
            own = learned.rates.pairs()
        known = {episode.id for episode in episodes}
        voices = dict[str, str]()
        for other in others:
            trust = agreement(own, other.pairs)
            lent = [episode for episode in other.episodes if episode.id not in known]
            known.update(episode.id for episode in lent)  # by whichever way it came, it counts once
            voices |= dict.fromkeys((episode.id for episode in lent), other.voice)
            episodes += [replace(episode, trust=trust) for episode in lent]
        own_voice = self._scope.agent
        return capped(episodes, own=own_voice, source=lambda episode: voices.get(episode.id, own_voice))

    def _nearest_situation(self, context: Clean) -> tuple[str | None, bool]:
        """Give the situation of the nearest decision, if that is near enough, and whether it is surely the same."""
        near, known = self._neighbours(context, COMPARED), self._experience.nearness(self._scope) or DEFAULT_NEARNESS
        with self._experience.of(self._scope) as learned:
            situations = learned.situations
            if (id := situations.nearest(near, known)) is not None:
                return id, True
            related = bool(near) and is_related(near[0].closeness, known)
            return (situations.of(near[0].context) if related else None), False

    def _neighbours(self, context: Clean, most: int) -> list[Neighbour]:
        """List the nearest decisions in other contexts, the nearest first."""
        usual, placed = self._usual(context), self._near(context)
        if usual is None or placed is None:
            return []
        found = self._store.search(self._scope, Query(near=placed, limit=most))
        events = self._store.events_of(self._scope, [match.id for match in found])
        near = happened.episodes(events, self._scope.agent, {match.id: match.score for match in found}, attempts=True)
        return _neighbours(context, near, usual)

    def _nearness(self, context: Clean) -> Nearness:
        """Tell what the closeness of contexts means in this memory, from some of them; again when it has grown."""
        placed = self._near(context)
        with self._experience.of(self._scope) as learned:
            decisions, last = learned.situations.decisions, learned.nearness
        if decisions < FEW or placed is None:
            return DEFAULT_NEARNESS
        state = f"{round(GROWTH * math.log2(decisions))} {placed.embedder}"
        if last is not None and last[0] == state:
            return last[1]
        if (known := self._experience.nearness(self._scope, state)) is not None:
            return known
        with self._experience.of(self._scope) as learned:
            sample, habits = learned.situations.sample(SAMPLED), learned.situations.habits()
        samples = [each for text in sample if (each := self._sample(self._clean("context", text))) is not None]
        found = nearness.learn_nearness(samples, habits, self._unrelated())
        self._experience.keep_nearness(self._scope, state, found)
        return found

    def _sample(self, context: Clean) -> nearness.Sample | None:
        """Look which recorded contexts are near another one, and how often the same was done there."""
        near = self._neighbours(context, WIDELY)
        with self._experience.of(self._scope) as learned:
            situations = learned.situations
            if situations.of(context) is None:
                return None
            known = [one for one in near if situations.of(one.context) is not None]
            other = [one for one in known if not situations.have_same_words(context, one.context)]
            shares = tuple((one.closeness, situations.agreement(context, one.context)) for one in other)
        return nearness.Sample(near[0].closeness if near else 1.0, shares)

    def _groups(self, around: Circumstances, now: datetime) -> dict[str, dict[str, GroupTotals]]:
        half_life = timedelta(days=self._evaluator.settings.half_life_days)
        with self._experience.of(self._scope) as learned:
            return learned.rates.tallies(around.features(), now, half_life)

    def outcome(self, id: str, quality: float, told: OutcomeDetails, *, correct: bool) -> bool:
        """Tell what became of a decision; `False` if just that was known. Raises `NotFound` and `Conflict`."""
        store = self._events()
        self._experience.flush(self._scope)
        while True:
            events = store.events_of(self._scope, [id])
            decision = next((event for event in events if event.kind == happened.DECISION), None)
            if decision is None:
                raise NotFound(f"there is no decision {self._shown(id)}", hint=Hint("memory list --kind decision"))
            past = happened.outcomes(events)
            last = past[-1] if past else decision
            before = happened.number(last, "quality")
            if before is not None:
                if before == quality and told.is_in(last):
                    return False
                if not correct and before != quality:
                    raise Conflict(f"decision {id} has an outcome already ({before:g}); say that this one corrects it")
            event = happened.outcome_of(
                decision,
                len(past) + 1,
                self._sources.now(),
                quality,
                before,
                error=told.error,
                duration=told.duration,
                cost=told.cost,
            )
            if store.append(self._scope, [event])[0]:
                return True

    def outcomes(self, id: str) -> list[RecordedOutcome]:
        """Everything that was told about how a decision went, oldest first; the last one counts."""
        events = self._events().events_of(self._scope, [id])
        decided = [event for event in events if event.kind == happened.DECISION]
        return [
            RecordedOutcome(
                at=event.at,
                quality=quality,
                error=happened.text(event, "error"),
                duration=happened.number(event, "duration"),
                cost=happened.number(event, "cost"),
            )
            for event in [*decided, *happened.outcomes(events)]
            if (quality := happened.number(event, "quality")) is not None
        ]

    # Failures ------------------------------------------------------------------------------------------

    def failures(self, *, quiet: bool = False) -> list[FailurePattern]:
        """List the failures that are known, the most recently seen first.

        If it is the agent itself who asks, decisions can cite them; not if somebody looks quietly.
        """
        with self._experience.of(self._scope) as learned:
            found = learned.recognizer.patterns()
        if self._notes_shown and not quiet:
            self.show_patterns((each.pattern_id for each in found), lent=False)
        return found

    def failure(self, name: str) -> FailurePattern | None:
        """The failure pattern of this id or name, or the one that a failure of this id belongs to."""
        with self._experience.of(self._scope) as learned:
            return learned.recognizer.pattern(name)

    def by_former_name(self, name: str) -> list[FailurePattern]:
        """The failure patterns that earlier versions can have known by this name."""
        with self._experience.of(self._scope) as learned:
            return learned.recognizer.by_former_name(name)

    def unlearned(self, id: str, signature: str) -> FailurePattern:
        """Return the pattern of a single failure, for a store without events."""
        now = self._sources.now()
        return FailurePattern(
            pattern_id=id,
            name=id,
            error_signature=signature,
            occurrence_count=1,
            first_seen=now,
            last_seen=now,
            episodes=(id,),
            agents=(self._scope.agent,),
        )

    def recognise(self, error: Clean, action: Clean) -> FailurePattern | None:
        """The pattern that an error belongs to; nothing is learned from asking."""
        with self._experience.of(self._scope) as learned:
            return learned.recognizer.find(error, action)

    def tried(self, pattern: str, solution: str, helped: bool | float = True) -> FailurePattern:
        """Learn how a solution did. Raises `NotFound` if there is no such pattern, and `InvalidInput`."""
        known, said = self._known(pattern), self._clean("solution", solution)
        body: dict[str, JsonValue] = {"solution": said, "helped": share("helped", float(helped))}
        self._append(happened.SOLUTION, known, body)
        return self._known(known.pattern_id)

    # Prevention ----------------------------------------------------------------------------------------

    def check(self, action: Clean, context: Clean, around: Circumstances) -> Verdict:
        """Decide whether an action may run; warnings are recorded, to measure later whether they helped."""
        verdict = self.verdict(action, context, around)
        if verdicts.is_trial(verdict):
            self.note(verdict, action, context, around)
        return verdict if verdict.decision == "allow" else self.note(verdict, action, context, around)

    def verdict(self, action: Clean, context: Clean, around: Circumstances) -> Verdict:
        """Decide whether an action may run, without recording the verdict."""
        with self._experience.of(self._scope) as learned:
            id, settled = _at_stake(learned, action, context)
            if settled:
                return self._judged(learned, action, context, around, id)
        nearest, surely = self._nearest_situation(context)  # a search for new words, while others may go on
        with self._experience.of(self._scope) as learned:
            return self._judged(learned, action, context, around, nearest, surely=surely)

    def _judged(
        self,
        learned: Learned,
        action: Clean,
        context: Clean,
        around: Circumstances,
        situation: str | None,
        *,
        surely: bool = True,
    ) -> Verdict:
        """Check an action against what is known, in a situation or one like it."""
        now = self._sources.now()
        verdict = verdicts.check(
            learned.recognizer,
            action,
            context,
            now=now,
            features=around.features(),
            environment=around.environment,
            situation=_alike(learned.situations, situation, surely=surely),
        )
        if verdict.decision == "block" and verdict.checks and learned.met(verdict.checks, now - MET_FOR):
            reason = f"{verdict.reason}; but what its check verifies was found to be so"
            verdict = verdict.model_copy(update={"decision": "warn", "reason": reason})
        return verdict

    def note(self, verdict: Verdict, action: Clean, context: Clean, around: Circumstances) -> Verdict:
        """The verdict with an id, and noted for this agent."""
        id, now = self._sources.new_id(), self._sources.now()
        body: dict[str, JsonValue] = {
            "action": action,
            "context": context,
            "environment": around.environment,
            "features": [*sorted(around.features())],
            "verdict": verdict.decision,
            "checks": [*verdict.checks],
        }
        self._experience.later(self._scope, Event(id, happened.CHECKED, now, "", happened.topic(context), body))
        return verdict.model_copy(update={"id": id})

    def checks(self) -> list[PreventionCheck]:
        """All prevention checks, by name."""
        found = [check for pattern in self.failures(quiet=True) for check in pattern.prevention_checks]
        return sorted(found, key=lambda check: (check.name, check.id))

    def generate(self, pattern: str, *, stage: str = "", command: Sequence[str] | None = None) -> list[PreventionCheck]:
        """Make checks from a failure and what solved it, and keep them. Raises `NotFound`."""
        known = self._known(pattern)
        parts = None if command is None else self._command(command)
        where = self._clean("stage", stage) if stage else ""
        for strategy in verdicts.generate_prevention_strategies(known):
            body: dict[str, JsonValue] = {"name": strategy.name}
            if where:
                body["stage"] = where
            if chosen := parts or strategy.command:
                body["command"] = [*chosen]
            self._append(happened.CHECK, known, body)
        return list(self._known(known.pattern_id).prevention_checks)

    def _command(self, command: Sequence[str]) -> list[str]:
        """A program and its arguments, if it can be kept. Raises `InvalidInput`."""
        if isinstance(command, str) or not command or not all(isinstance(part, str) and part for part in command):
            raise InvalidInput("a command is a list of texts, the program first, such as ['npm', 'cache', 'verify']")
        if any(self._clean("command", part) != part for part in command):
            raise InvalidInput("the command holds a secret; let it read that from the environment or a file")
        return list(command)

    def run(self, name: str, *, allowed: bool, seconds: float) -> tuple[PreventionCheck, check_commands.CommandResult]:
        """Run the command of a check, if that is allowed. Raises `NotFound` and `NotAllowed`."""
        check = next((check for check in self.checks() if name in {check.id, check.name}), None)
        if check is None:
            raise NotFound(
                f"there is no check {self._shown(name)}",
                hint=Hint("prevention list"),
            )
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise InvalidInput(f"seconds must be a number, not {type(seconds).__name__}")
        if check.command is None:
            raise NotFound(
                f"the check {check.name!r} has no command", hint=Hint("prevention generate --command", "gives it one")
            )
        ran = check_commands.run_check_command(check.command, allowed=allowed, seconds=seconds)
        body: dict[str, JsonValue] = {"about": check.id, "quality": 1.0 if ran.met else 0.0}
        self._append(happened.RAN, self._known(check.pattern_id), body)
        said = self._clean("output", ran.output) if ran.output.strip() else ran.output
        return check, replace(ran, output=said)

    # Reports -------------------------------------------------------------------------------------------

    def rates(self) -> dict[str, tuple[int, float]]:
        """Return the attempts and outcomes of each action, updated incrementally."""
        with self._experience.of(self._scope) as learned:
            return learned.rates.by_action()

    def history(self) -> list[DecisionEpisode]:
        """All decisions whose outcome is known, oldest first."""
        return self._with_situations(happened.episodes(self._feed(), self._scope.agent))

    def synthesis(self, others: Sequence[Learning] = (), *, quiet: bool = False) -> Synthesis:
        """Success patterns, decision templates and pooled rates.

        If it is the agent itself who asks, decisions can cite what it is given here; not if somebody looks quietly.
        """
        found = self._synthesized(*self._past(others))
        if self._notes_shown and not quiet:
            given = [each.pattern_id for each in found.patterns] + [each.pattern_id for each in found.templates]
            self.show_patterns(given, lent=bool(others))
        return found

    def _past(self, others: Sequence[Learning]) -> tuple[list[DecisionEpisode], list[list[DecisionEpisode]]]:
        """All attempts of this agent and the others whose outcome is known, and those of each session in order."""
        episodes, runs = list[DecisionEpisode](), list[list[DecisionEpisode]]()
        for each in (self, *others):
            events = each._feed()
            episodes += each._with_situations(happened.episodes(events, each._scope.agent, attempts=True))
            runs += [each._with_situations(run) for run in happened.runs(events, each._scope.agent)]
        return episodes, runs

    def _with_situations(self, episodes: Sequence[DecisionEpisode]) -> list[DecisionEpisode]:
        """Give episodes the situation that their context was placed in."""
        with self._experience.of(self._scope) as learned:
            situations = learned.situations
            return [replace(one, situation=situations.of(one.context) or "") for one in episodes]

    def _titles(self) -> dict[str, str]:
        with self._experience.of(self._scope) as learned:
            return learned.situations.names()

    def _synthesized(self, episodes: Sequence[DecisionEpisode], runs: Sequence[Sequence[DecisionEpisode]]) -> Synthesis:
        with self._experience.of(self._scope) as learned:
            taken = set(learned.recognizer.index.names)
        return self._synthesizer.synthesize(
            episodes, runs=runs, own=self._scope.agent, titles=self._titles(), taken=taken
        )

    def show_patterns(
        self, ids: Iterable[str], *, lent: bool, sources: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        """Note that this agent was shown patterns, with `lent` those of others, so that a decision can cite them.

        `sources` says from which sources each came.
        """
        if not isinstance(self._store, LogsRecalls):
            return
        now = self._sources.now()
        for id in ids:
            if self._store.get_recall(self._scope, id) is None:
                behind = sources.get(id, ())
                shares: dict[str, JsonValue] = {name: 1 / len(behind) for name in behind}
                about: dict[str, JsonValue] = {"lent": lent, PATTERN: True, happened.SOURCES: shares}
                self._store.log_recall(self._scope, LoggedRecall(id, now, (), about=about))

    def alarms(self) -> list[Alarm]:
        """Bursts of outcomes that contradict what was well established, and who is behind them."""
        return alarms(self.history(), self._sources.now())

    def calibration(self) -> Calibration:
        """Measure the calibration of this agent's predictions on its own decisions."""
        return scores.calibration(scores.replay(self.history(), self._evaluator))

    def harmful(self) -> list[HarmfulMemory]:
        """Memories whose use goes with failure, the worst first."""
        require(self._store, CreditsRecalls, "finding harmful memories")
        harm = scores.harm(self._store.credits(self._scope, CREDITS))
        found = self._store.get(self._scope, [each.id for each in harm])
        told = zip(harm, found, strict=True)
        return [each.model_copy(update={"text": memory.text}) for each, memory in told if isinstance(memory, Memory)]

    def stats(self, others: Sequence[Learning] = ()) -> LearningStats:
        """Measure how well this agent and the others learn, each from its own decisions, and sum that up."""
        agents = tuple(each._scope.agent for each in (self, *others))
        several = sorted((self, *others), key=lambda one: one._scope.agent)
        days, patterns, episodes, successes = [], [], list[DecisionEpisode](), 0
        replays = list[tuple[float, float]]()
        for each in several:
            with each._experience.of(each._scope) as learned:
                days.append({day: tuple(counts) for day, counts in learned.days.items()})
            patterns += each.failures(quiet=True)
            own, runs = each._past(())
            successes += len(each._synthesized(own, runs).patterns)
            decided = each.history()
            replays += scores.replay(decided, each._evaluator)
            episodes += decided
        found = scores.stats(agents, days, episodes, patterns, successes, scores.calibration(replays))
        return found.model_copy(update={"spared": spared([each.attempts() for each in several])})

    def attempts(self) -> list[reuse.Attempt]:
        """List all decisions whose outcome is known, with what each was based on, oldest first."""
        found = reuse.attempts(self._feed(), self._scope.agent)
        with self._experience.of(self._scope) as learned:
            return [replace(one, situation=learned.situations.of(one.context) or "") for one in found]

    def _feed(self) -> list[Event]:
        store, found, after = self._store, list[Event](), 0
        while some := store.events_after(self._scope, after, PAGE):
            found, after = found + some, some[-1].seq
        return found

    def _known(self, pattern: str) -> FailurePattern:
        known = self.failure(pattern)
        if known is None:
            raise NotFound(
                f"there is no failure pattern {self._shown(pattern)}",
                hint=Hint("learning failures"),
            )
        return known

    def _shown(self, name: str) -> str:
        """What somebody asked for, as far as it may be repeated."""
        return ascii(self._clean("name", name)) if isinstance(name, str) and name.strip() else ascii(name)

    def _append(self, kind: str, pattern: FailurePattern, body: dict[str, JsonValue]) -> None:
        """Keep an event about a failure pattern; it goes with the newest memory of that failure."""
        self._experience.flush(self._scope)
        subject = next(iter(pattern.episodes), "")
        about: dict[str, JsonValue] = {"about": pattern.pattern_id}
        event = Event(self._sources.new_id(), kind, self._sources.now(), subject, "", about | body)
        self._events().append(self._scope, [event])

    def _events(self) -> KeepsEvents:
        require(self._store, KeepsEvents, "learning from outcomes")
        return self._store


Beside = tuple[Learning, Sequence[Testimony]]
"""An agent that is asked together with another one, and what others lent to it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Decisions and tallies that count in a context, the agents they come from, and all agents that were asked."""

    asked: tuple[Learning, ...]
    agents: tuple[Learning, ...]
    episodes: Sequence[DecisionEpisode]
    groups: Groups

    def nearness(self, context: Clean) -> Nearness:
        """Tell what the closeness of contexts means to the agent that knows most about a context."""
        known = Counter(one.agent for one in self.episodes)
        return max(self.agents, key=lambda each: (known[each._scope.agent], each._scope.agent))._nearness(context)


def _joint(several: Sequence[Evidence]) -> Evidence:
    """Put together what several agents know; an episode that two of them bring counts as its owner's."""
    if len(several) == 1:
        return several[0]
    episodes, groups = dict[str, DecisionEpisode](), dict[str, dict[str, GroupTotals]]()
    for known in several:
        for one in known.episodes:
            if one.id not in episodes or one.trust > episodes[one.id].trust:
                episodes[one.id] = one
        for name, tallies in known.groups.items():
            sums = groups.setdefault(name, {})
            for action, tally in tallies.items():
                before = sums.get(action, GroupTotals(0.0, 0.0))
                sums[action] = GroupTotals(before.attempts + tally.attempts, before.quality + tally.quality)
    agents = tuple(each for known in several for each in known.agents)
    return Evidence(agents, agents, list(episodes.values()), groups)


def _at_stake(learned: Learned, action: Clean, context: Clean) -> tuple[str | None, bool]:
    """Give the situation of a context, if the action failed somewhere, and whether no search could tell more."""
    if not context.strip() or not verdicts.failed_elsewhere(learned.recognizer, action):
        return None, True
    id = learned.situations.find_like(context)
    return id, id is not None or len(learned.situations.find_by_words(context)) > 1


def _alike(situations: Situations, id: str | None, *, surely: bool) -> SituationView | None:
    """Tell a check what is of a situation, or if that is not sure, of a similar one."""
    id = None if id is None else situations.current(id)
    if id is None:
        return None

    @cache
    def is_apart(wording: str) -> bool:
        other = situations.id_of_wording(wording)
        return other is not None and bool(situations.different_from(id, [other]))

    nearness = SAME_SITUATION if surely else SIMILAR_SITUATION
    return SituationView(lambda known: situations.of(known) == id, is_apart, situations.latest(id), nearness)


def _sameness(situation: str | None, own: str | None, apart: Collection[str]) -> bool | None:
    """Tell whether a context is of the same situation; `False` if it is surely of another one."""
    if situation is not None and situation == own:
        return True
    return False if situation in apart else None


def _is_unread(context: str, episode: DecisionEpisode) -> bool:
    """Tell whether only the embedder finds two contexts the same, which happens where it knows none of their words."""
    return episode.similarity >= SAME and word_stems(context).isdisjoint(word_stems(episode.context))


def _likeness(context: str, episode: DecisionEpisode) -> float:
    """Give how alike the context of an episode is; other words are never the same, though an embedder may say so."""
    if episode.similarity < SAME or wording_key(episode.context) == wording_key(context):
        return episode.similarity
    return ALMOST


def _contrasts(context: str, episodes: Iterable[DecisionEpisode]) -> set[str]:
    """Give the contexts that a search finds near, but whose words say something else."""
    return {one.context for one in episodes if is_contrast(context, one.context) or _is_unread(context, one)}


def _neighbours(context: str, near: Sequence[DecisionEpisode], usual: float) -> list[Neighbour]:
    """List the nearest episodes in other contexts that may be of one situation with this one, and how close they are.

    The nearest come first.
    """
    contrasts = _contrasts(context, near)
    alike = (one for one in near if one.similarity < SAME and one.context not in contrasts)
    others = sorted(alike, key=lambda one: (-one.similarity, one.id))
    return [Neighbour(one.context, relative_closeness(usual, one.similarity)) for one in others]
