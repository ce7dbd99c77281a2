"""Failures that come back: recognised by their signature, with what was done, where, and what solved them.

Everything here is folded from what happened, in the order it was recorded: the same happenings give the same state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from engram.clock import from_micros, micros
from engram.learning.actions import actions
from engram.learning.actions.actions import Action, Context, same_action
from engram.learning.actions.history import CLOSE, Account, Episode, Ledger
from engram.learning.failures import check_templates
from engram.learning.failures.effect import Counts, effect, next_status
from engram.learning.failures.patterns import EPISODES, Pattern, Remembered, Shelf
from engram.learning.failures.signatures import extract_error_signature
from engram.learning.failures.variable_parts import error_text
from engram.learning.situations.wordings import wording
from engram.model.failure import CheckStatus, FailurePattern, PreventionCheck
from engram.text.terms import digest, normal_form

GOOD = 0.5
"""An outcome below this quality is a failure."""
ANSWER = timedelta(hours=1)
"""Taking the action in the same context answers the verdicts of this time, if it does not name one."""
REMEMBERED = 10_000
"""Decisions and verdicts that wait for an outcome, or may get another one; the oldest go first."""
WAITING = 8
_NUMBERED = re.compile(r"(.+)-([2-9]|[1-9]\d{1,5})")
NEWEST = 20
"""Accounts of a pattern whose tags say at which stage it belongs."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One canonical event, as far as failures are concerned; fields that its kind does not need stay empty.

    failure   an error, with the action, context and environment if known, and a solution that was applied, if any;
              `subject` is the id of the decision that failed, if that was recorded: then it is the same occurrence
    solution  another try of a solution; `subject` is the id of the failure, of its pattern, or the pattern's name
    decision  an action in a context; `quality` if the outcome is known, `error` if it failed with one;
              `based_on` are the ids that it was informed by, which may be verdicts
    outcome   what became of the decision or of the verdict `subject`: `quality`, and `error` if there was one; the last
              one counts
    check     a prevention check made or changed by hand for the pattern `subject` (its id, name, or a failure of it);
              without a pattern it stands for itself and needs an `action`; one that is known by `id` or `name` changes
    checked   a verdict: `verdict` and the ids of the `checks` that spoke up
    ran       the command of the check `subject` was run: `quality` is 1 if the condition held, 0 if not
    """

    kind: Literal["failure", "solution", "decision", "outcome", "check", "checked", "ran"]
    id: str
    at: datetime
    agent: str = ""
    subject: str | None = None
    error: str = ""
    action: str = ""
    context: str = ""
    environment: str = ""
    features: frozenset[str] = frozenset()
    """Such as "tool=npm", "env=ci"."""
    solution: str = ""
    helped: float | None = None
    """How much the solution helped, 0 to 1; a solution without it is taken to have helped."""
    quality: float | None = None
    name: str = ""
    verify: str = ""
    stage: str = ""
    command: tuple[str, ...] | None = None
    status: Literal["", "active", "loosened", "retired"] = ""
    verdict: Literal["", "allow", "warn", "block"] = ""
    checks: tuple[str, ...] = ()
    memory: str = ""
    """An occurrence of the failure that `subject` names, in case an earlier version knew that by another id."""
    situation: str = ""
    """The situation of the context, if it has one."""
    based_on: tuple[str, ...] = ()


@dataclass(slots=True)
class Watch:
    """A prevention check: what it says, what it counted, and whether its status was set by hand."""

    id: str
    pattern: str
    created: int
    name: str = ""
    verify: str = ""
    stage: str = ""
    """As somebody said; empty if it is to be derived from where the failures happened."""
    title: str = ""
    """The name it has while nobody gave it one; no other check of the agent has it."""
    command: tuple[str, ...] | None = None
    action: str = ""
    context: str = ""
    features: frozenset[str] = frozenset()
    status: CheckStatus = "active"
    held: bool = False
    fired: int = 0
    last_fired: int | None = None
    runs: int = 0
    passed: int = 0
    verified: int | None = None
    """The time its command last found the condition met; none if it failed since."""
    counts: Counts = field(default_factory=Counts)


@dataclass(slots=True)
class _Taken:
    """A decision: the account it is booked in, the verdicts it answers, and what was counted for it."""

    id: str
    at: int
    agent: str
    account: int
    exact: str
    environment: str
    quality: float | None = None
    pattern: str | None = None
    answers: dict[str, bool] = field(default_factory=dict)
    counted: dict[str, str] = field(default_factory=dict)
    wording: str = ""


@dataclass(slots=True)
class _Said:
    """A verdict that may still be answered."""

    id: str
    at: int
    agent: str
    action: str
    context: str
    features: frozenset[str]
    environment: str
    checks: tuple[str, ...]
    heeded: int | None = None
    """The time at which a remedy was applied before the action; its next outcome tells whether that helped."""


class PatternRecognizer:
    """Finds the failures that come back; a pure fold over happenings, and what is asked of it changes nothing."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.shelf = Shelf()
        self.checks: dict[str, Watch] = {}
        self._aliases: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        """The ids of the checks by the names that they have."""
        self._of_account: dict[int, list[str]] = {}
        self._of_event: dict[str, str] = {}
        self._rules: dict[tuple[str, ...], list[str]] = {}
        self._taken: dict[str, _Taken] = {}
        self._said: dict[str, _Said] = {}
        self._waiting: dict[str, list[str]] = {}

    def fold(self, event: Happening) -> None:
        """Learn from one happening; one about a subject that is not known teaches nothing."""
        {
            "failure": self._failure,
            "solution": self._solution,
            "decision": self._decision,
            "outcome": self._outcome,
            "check": self._check,
            "checked": self._checked,
            "ran": self._ran,
        }[event.kind](event)

    def patterns(self) -> list[FailurePattern]:
        """All patterns, the most recently seen first."""
        seen = [self.view(pattern) for pattern in self.shelf.patterns.values() if pattern.times]
        return sorted(seen, key=lambda one: (-micros(one.last_seen), one.pattern_id))

    def pattern(self, name: str) -> FailurePattern | None:
        """The pattern with this id or name, or the one that a failure with this id belongs to."""
        found = self._resolve(name)
        return self.view(found) if found is not None and found.times else None

    def formerly(self, name: str) -> list[FailurePattern]:
        """List the patterns that earlier versions can have known by a name, which is not the name of any now.

        They numbered patterns of one name as these came: `timeout-2` is the second of those called `timeout`.
        """
        found = [pattern for pattern in self.shelf.patterns.values() if pattern.times and name in pattern.former_names]
        if not found and (numbered := _NUMBERED.fullmatch(name)):
            every = [one for one in self.shelf.patterns.values() if numbered[1] in one.former_names]
            found = [one for one in every[int(numbered[2]) - 1 :][:1] if one.times]
        return [self.view(pattern) for pattern in found]

    def find(self, error: str, action: str = "") -> FailurePattern | None:
        """The pattern of the same or a similar signature; learns nothing."""
        found = self.shelf.find(extract_error_signature(error), " ".join(actions.action(action).head))
        return self.view(found) if found is not None and found.times else None

    def view(self, pattern: Pattern) -> FailurePattern:
        """A pattern with its prevention checks, as others see it."""
        seen = pattern.seen()
        checks = tuple(self._view_check(self.checks[id], seen) for id in pattern.checks)
        return seen.model_copy(update={"prevention_checks": checks})

    def prevention_checks(self) -> list[PreventionCheck]:
        """All prevention checks, in the order they were made."""
        views: dict[str, FailurePattern | None] = {"": None}
        for id in dict.fromkeys(watch.pattern for watch in self.checks.values() if watch.pattern):
            views[id] = self.shelf.patterns[id].seen() if self.shelf.patterns[id].times else None
        return [self._view_check(watch, views[watch.pattern]) for watch in self.checks.values()]

    def prevention_check(self, name: str) -> PreventionCheck | None:
        """The check with this id or name."""
        watch = self._watch(name) or self._watch_formerly(name)
        if watch is None:
            return None
        pattern = self.shelf.patterns.get(watch.pattern)
        return self._view_check(watch, pattern.seen() if pattern and pattern.times else None)

    def rules(self, action: Action) -> list[Watch]:
        """The checks that were given an action of their own which does the same, or a sibling of it."""
        both = (*self._rules.get(action.does, ()), *self._rules.get(actions.sibling(action) or (), ()))
        return [self.checks[id] for id in both]

    def dump(self) -> dict[str, Any]:
        """The whole state as JSON."""
        return {
            "version": 1,
            "ledger": self.ledger.dump(),
            "shelf": self.shelf.dump(),
            "checks": [_plain(watch) for watch in self.checks.values()],
            "aliases": dict(self._aliases),
            "titles": dict(self._titles),
            "events": dict(self._of_event),
            "taken": [_plain(taken) for taken in self._taken.values()],
            "said": [_plain(said) for said in self._said.values()],
            "waiting": {place: list(ids) for place, ids in self._waiting.items()},
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> PatternRecognizer:
        """The inverse of `dump`: goes on identically."""
        own = cls()
        own.ledger, own.shelf = Ledger.load(state["ledger"]), Shelf.load(state["shelf"])
        for pattern in own.shelf.patterns.values():
            for account in pattern.accounts:
                own._of_account.setdefault(account, []).append(pattern.id)
        for one in state["checks"]:
            command = None if one["command"] is None else tuple(one["command"])
            counts = Counts(**one["counts"])
            own._enter(Watch(**{**one, "command": command, "counts": counts, "features": frozenset(one["features"])}))
        own._aliases, own._of_event = dict(state["aliases"]), dict(state["events"])
        own._titles = dict(state["titles"])
        own._taken = {one["id"]: _Taken(**one) for one in state["taken"]}
        for one in state["said"]:
            own._said[one["id"]] = _Said(
                **{**one, "features": frozenset(one["features"]), "checks": tuple(one["checks"])}
            )
        own._waiting = {place: list(ids) for place, ids in state["waiting"].items()}
        return own

    def _failure(self, event: Happening) -> None:
        taken = self._taken.get(event.subject or "")
        if taken is not None:
            quality = taken.quality if taken.quality is not None and taken.quality < GOOD else 0.0
            self._settle(taken, quality, event)
            pattern = self.shelf.patterns[taken.pattern or ""]
            self._of_event[event.id] = pattern.id
        else:
            action, context = _forms(event)
            account = self._open(event, action, context) if action.key else None
            pattern = self._recognise(event, event.action, event.context, action, context)
            self._see(pattern, event.id, event, account)
            if account is not None:
                where = wording(event.context)
                self.ledger.book(account, Episode(event.id, micros(event.at), 0.0, action.exact, pattern.id, where))
                self._count(account, 0.0, self._answer(event, action), self._join(pattern, account))
        if event.solution.strip():
            self._solve(pattern, event)
        self._suggest(pattern, event)
        if event.verify.strip():
            watch = self._suggested(pattern, event)
            watch.verify = event.verify
            self._entitle(watch)

    def _solution(self, event: Happening) -> None:
        pattern = self._about(event)
        if pattern is None and event.error.strip():
            pattern = self.shelf.find(extract_error_signature(event.error), " ".join(actions.action(event.action).head))
            if pattern is None:
                self._failure(event)
                return
        if pattern is not None and event.solution.strip():
            self._solve(pattern, event)
            self._suggest(pattern, event)

    def _decision(self, event: Happening) -> None:
        action, context = _forms(event)
        if not action.key:
            if event.error.strip():
                self._failure(event)
            return
        account = self._open(event, action, context)
        taken = _Taken(event.id, micros(event.at), event.agent, account.number, action.exact, event.environment)
        taken.wording, taken.answers = wording(event.context), self._answer(event, action)
        self._taken[event.id] = taken
        _forget_oldest(self._taken)
        if event.quality is not None or event.error.strip():
            self._settle(taken, 0.0 if event.quality is None else event.quality, event)

    def _outcome(self, event: Happening) -> None:
        taken, said = self._taken.get(event.subject or ""), self._said.get(event.subject or "")
        if taken is None and said is not None:
            action, context = _forms(said)
            account = self._open(said, action, context)
            taken = _Taken(said.id, micros(event.at), said.agent, account.number, action.exact, said.environment)
            taken.wording = wording(said.context)
            taken.answers = self._answered([said], taken.at)
            self._taken[said.id] = taken
            _forget_oldest(self._taken)
        if taken is not None:
            self._settle(taken, 0.0 if event.quality is None else event.quality, event)

    def _check(self, event: Happening) -> None:
        pattern = self._about(event)
        if pattern is None and event.error.strip():
            pattern = self.shelf.find(extract_error_signature(event.error), " ".join(actions.action(event.action).head))
        watch, named = self._watch(event.id), self._watch(event.name)
        if named is None and not event.action.strip():
            named = self._watch_formerly(event.name)
        if watch is None and named is not None and (pattern is None or named.pattern == pattern.id):
            watch = named
        if watch is None and pattern is not None and not event.action.strip():
            watch = self._suggested(pattern, event)
            self._aliases[event.id] = watch.id
        if watch is None:
            if not event.action.strip():
                return
            watch = Watch(event.id, pattern.id if pattern else "", micros(event.at))
            watch.action, watch.context, watch.features = event.action, event.context, _features(event)
            self._enter(watch)
            if pattern is not None:
                self._attach(pattern, watch)
        watch.name = self._free(event.name, watch.id) if event.name else watch.name
        watch.verify = event.verify or watch.verify
        watch.stage = event.stage or watch.stage
        watch.command = event.command if event.command is not None else watch.command
        if event.status and (watch.held or event.status != "active"):
            # Generating a check again says "active", and leaves it the status that it earned.
            watch.held = event.status != "active"
            watch.status = event.status
            watch.counts.turn()
        self._entitle(watch)

    def _checked(self, event: Happening) -> None:
        fired = self._spoke_up(event)
        for watch in fired:
            watch.fired += 1
            watch.last_fired = micros(event.at)
        if event.verdict in ("warn", "block"):
            self.ledger.refuse(*_forms(event))
        elif event.verdict == "allow":
            self.ledger.let_through(*_forms(event))
        said = _Said(
            event.id,
            micros(event.at),
            event.agent,
            event.action,
            event.context,
            event.features,
            event.environment,
            tuple(watch.id for watch in fired),
        )
        self._said[event.id] = said
        _forget_oldest(self._said)
        if fired:
            waiting = self._waiting.pop(_place(event), [])
            self._waiting[_place(event)] = [*waiting, event.id][-WAITING:]
            _forget_oldest(self._waiting)

    def _spoke_up(self, event: Happening) -> list[Watch]:
        """The checks of a verdict; where it names none that is known, those of what failed at this action here.

        An earlier version knew a failure, and so its check, by another id.
        """
        named = [watch for id in event.checks if (watch := self._watch(id)) is not None]
        if named or not event.checks:
            return named
        failed = [
            one.pattern
            for match in self.ledger.matches(*_forms(event))
            for one in match.episodes
            if one.pattern is not None
        ]
        checks = [id for pattern in dict.fromkeys(failed) for id in self.shelf.patterns[pattern].checks]
        return [self.checks[id] for id in checks[: len(event.checks)]]

    def _ran(self, event: Happening) -> None:
        watch = self._watch(event.subject or "")
        if watch is None and (pattern := self._resolve(event.memory)) is not None:
            watch = next((self.checks[id] for id in pattern.checks), None)
        if watch is not None:
            met = event.quality is not None and event.quality >= GOOD
            watch.runs += 1
            watch.passed += met
            watch.verified = micros(event.at) if met else None

    def _open(self, event: Happening | _Said, action: Action, context: Context) -> Account:
        return self.ledger.open(event.action, event.context, action, context)

    def _recognise(self, event: Happening, text: str, place: str, action: Action, context: Context) -> Pattern:
        """The pattern of an error; without one, of an action in a situation and its circumstances."""
        if event.error.strip() or not action.key:
            return self.shelf.take(extract_error_signature(event.error), action.head)
        where = (event.situation, *sorted(context.features)) if event.situation else (context.key,)
        return self.shelf.take_action(text, place, digest("action", action.key, *where), action.head)

    def _settle(self, taken: _Taken, quality: float, event: Happening) -> None:
        """Book what became of a decision; a later outcome replaces an earlier one, and what was learnt from it."""
        error = event.error
        account = self.ledger.accounts[taken.account]
        action = account.action
        before, earlier = taken.quality, taken.pattern
        self._unsee(taken)
        pattern = None
        if quality < GOOD or (error.strip() and quality < 1):
            known = [id for id in self._of_account.get(account.number, ()) if self.shelf.patterns[id].times]
            if not error.strip() and earlier is not None:
                pattern = self.shelf.patterns[earlier]
            elif not error.strip() and len(known) == 1:
                pattern = self.shelf.patterns[known[0]]
            else:
                pattern = self._recognise(event, account.action_text, account.context_text, action, account.context)
        taken.quality, taken.pattern = quality, pattern.id if pattern else None
        if before is None:
            self.ledger.book(account, Episode(taken.id, taken.at, quality, taken.exact, taken.pattern, taken.wording))
        else:
            self.ledger.correct(account, taken.id, quality, taken.pattern, before)
        joined: list[str] = []
        if pattern is not None:
            self._see(pattern, taken.id, taken, account)
            joined = self._join(pattern, account)
        taken.counted = self._count(account, quality, taken.answers, joined)
        if pattern is not None:
            self._suggest(pattern, taken)

    def _unsee(self, taken: _Taken) -> None:
        """Take back what a decision's earlier outcome was counted as."""
        if taken.quality is None:
            return
        for id, how in taken.counted.items():
            counts = self.checks[id].counts
            if how in ("ahead", "changed"):
                counts.spoken(taken.quality, ahead=how == "ahead", times=-1)
            else:
                counts.silent(taken.quality, loosened=how == "loosened", times=-1)
        if taken.pattern is not None:
            pattern, account = self.shelf.patterns[taken.pattern], self.ledger.accounts[taken.account]
            pattern.times.pop(taken.id, None)
            self._of_event.pop(taken.id, None)
            _tally(pattern, account, taken.agent, taken.environment, -1)

    def _see(self, pattern: Pattern, id: str, event: Happening | _Taken, account: Account | None) -> None:
        pattern.times[id] = event.at if isinstance(event.at, int) else micros(event.at)
        self._of_event[id] = pattern.id
        _tally(pattern, account, event.agent, event.environment, 1)
        if account is None and isinstance(event, Happening) and event.context.strip():
            pattern.contexts[event.context] = pattern.contexts.get(event.context, 0) + 1

    def _join(self, pattern: Pattern, account: Account) -> list[str]:
        """Let a pattern's checks watch an account; those that begin to, with what the account already has."""
        if account.number in pattern.accounts:
            return []
        pattern.accounts.append(account.number)
        self._of_account.setdefault(account.number, []).append(pattern.id)
        for id in pattern.checks:
            _catch_up(self.checks[id].counts, account)
        return list(pattern.checks)

    def _count(
        self, account: Account, quality: float, answers: Mapping[str, bool], joined: list[str]
    ) -> dict[str, str]:
        """Count an episode for the checks that watch its account or had spoken up; how each counted it."""
        counted = {id: "ahead" if ahead else "changed" for id, ahead in answers.items()}
        watching = [
            id for pattern in self._of_account.get(account.number, ()) for id in self.shelf.patterns[pattern].checks
        ]
        counted |= {id: "silent" for id in watching if id not in counted}
        for id, how in counted.items():
            watch = self.checks[id]
            if how != "silent":
                watch.counts.spoken(quality, ahead=how == "ahead")
            else:
                counted[id] = "loosened" if watch.status == "loosened" else how
                watch.counts.silent(quality, loosened=watch.status == "loosened", known=id in joined)
            self._judge(watch)
        return counted

    def _judge(self, watch: Watch) -> None:
        status = watch.status if watch.held else next_status(watch.status, watch.counts)
        if status != watch.status:
            watch.status = status
            watch.counts.turn()

    def _solve(self, pattern: Pattern, event: Happening) -> None:
        text = event.solution.strip()
        solution = pattern.solutions.setdefault(normal_form(text), Remembered(text))
        solution.tried += 1
        solution.helped += 1.0 if event.helped is None else event.helped
        solution.noted += event.kind == "failure" and event.helped is None
        solution.last_used = max(solution.last_used, micros(event.at)) if solution.tried > 1 else micros(event.at)
        if event.agent and event.agent not in solution.agents:
            solution.agents.append(event.agent)
        solution.episodes = [*solution.episodes, event.id][-EPISODES:]

    def _suggest(self, pattern: Pattern, event: Happening | _Taken) -> None:
        """Make the check of a pattern once it came back, or once something is known to solve it."""
        for id in pattern.checks:
            self._entitle(self.checks[id])
        solved = any(solution.rate > GOOD for solution in pattern.solutions.values())
        if not pattern.checks and (solved or (pattern.recurring and pattern.accounts)):
            self._suggested(pattern, event)

    def _suggested(self, pattern: Pattern, event: Happening | _Taken) -> Watch:
        id = check_templates.check_id(pattern.id)
        if id not in self.checks:
            watch = Watch(id, pattern.id, event.at if isinstance(event.at, int) else micros(event.at))
            self._enter(watch)
            self._attach(pattern, watch)
        self._entitle(self.checks[id])
        return self.checks[id]

    def _entitle(self, watch: Watch) -> None:
        """Let a check be found by its name: the one that it was given, or one after what it is about."""
        watch.title = watch.name or self._named_after(watch)
        self._titles[watch.title] = watch.id

    def _named_after(self, watch: Watch) -> str:
        """A name that tells what a check is about, and that no other check has."""
        pattern = self.shelf.patterns.get(watch.pattern)
        if pattern is None:
            return self._free(check_templates.action_check_name(watch.action), watch.id)
        solution = next((one.text for one in pattern.ranked()[:1] if one.rate >= GOOD), "")
        name = check_templates.check_name(pattern.name, solution or watch.verify)
        if self._titles.get(name, watch.id) == watch.id:
            return name
        return self._free(check_templates.pattern_check_name(pattern.name), watch.id)

    def _free(self, name: str, id: str) -> str:
        """The name, with a number if another check has it."""
        number, free = 1, name
        while self._titles.get(free, id) != id:
            number += 1
            free = check_templates.another_name(name, number)
        return free

    def _attach(self, pattern: Pattern, watch: Watch) -> None:
        pattern.checks.append(watch.id)
        for number in pattern.accounts:
            _catch_up(watch.counts, self.ledger.accounts[number])

    def _enter(self, watch: Watch) -> None:
        self.checks[watch.id] = watch
        if watch.action:
            self._rules.setdefault(actions.action(watch.action).does, []).append(watch.id)

    def _answer(self, event: Happening, action: Action) -> dict[str, bool]:
        """List the checks whose verdicts an action answers, and whether it is the action in spite of each.

        Another action answers only the verdicts that it names; a remedy applied before the action answers none yet.
        """
        named = [id for id in (event.subject or "", *event.based_on) if id in self._said]
        waiting = [id for id in self._waiting.get(_place(event), ()) if self._waits(id, micros(event.at))]
        taken, changed = list[_Said](), list[_Said]()
        for said in (self._said[id] for id in dict.fromkeys([*waiting, *named])):
            asked = actions.action(said.action)
            remedy = self._is_remedy(said, action) and action.exact != asked.exact
            if remedy and not _does_the_same_task(action, asked):
                said.heeded = micros(event.at) if _went_well(event) else said.heeded
            elif remedy or (said.id in named and not _is_same(asked, action)):
                changed.append(said)
            elif _is_same(asked, action):
                taken.append(said)
        for said in changed:
            self._close(said)
        return {id: False for said in changed for id in said.checks} | self._answered(taken, micros(event.at))

    def _answered(self, taken: Sequence[_Said], at: int) -> dict[str, bool]:
        """List the checks of verdicts whose action is taken, and whether none of each was heeded first."""
        heeded = {id for said in taken for id in said.checks if said.heeded or self._verified(id, said.at, at)}
        for said in taken:
            self._close(said)
        return {id: id not in heeded for said in taken for id in said.checks}

    def _close(self, said: _Said) -> None:
        """Let a verdict wait no longer."""
        place, said.heeded = _place(said), None
        left = [id for id in self._waiting.pop(place, ()) if id != said.id]
        if left:
            self._waiting[place] = left

    def _waits(self, id: str, until: int) -> bool:
        """Tell whether a verdict is there and recent."""
        said = self._said.get(id)
        return said is not None and 0 <= until - (said.heeded or said.at) <= ANSWER / timedelta(microseconds=1)

    def _is_remedy(self, said: _Said, action: Action) -> bool:
        """Tell whether an action is known to solve what a verdict is about, or is what one of its checks asks for."""
        watches = [self.checks[id] for id in said.checks]
        patterns = [self.shelf.patterns[watch.pattern] for watch in watches if watch.pattern]
        texts = [one.text for pattern in patterns for one in pattern.solutions.values()]
        texts += [watch.verify for watch in watches if watch.verify]
        return any(_is_same(actions.action(text), action) for text in texts)

    def _verified(self, check: str, since: int, until: int) -> bool:
        """Whether the condition of a check was found to be met between a verdict and what was done then."""
        at = self.checks[check].verified
        return at is not None and since <= at <= until

    def _about(self, event: Happening) -> Pattern | None:
        """The pattern that an event is about."""
        return self._resolve(event.subject or "") or self._resolve(event.memory)

    def _resolve(self, name: str) -> Pattern | None:
        id = name if name in self.shelf.patterns else self.shelf.names.get(name) or self._of_event.get(name)
        return self.shelf.patterns[id] if id else None

    def _watch(self, name: str) -> Watch | None:
        return self.checks.get(self._aliases.get(name) or self._titles.get(name, name))

    def _watch_formerly(self, name: str) -> Watch | None:
        """Give the check that an earlier version called so, after its solution or its pattern."""
        for pattern in self.shelf.patterns.values() if name.startswith("verify-") else ():
            solved = [check_templates.former_check_name(solution.text) for solution in pattern.ranked()[:1]]
            if pattern.checks and (name in solved or name.removeprefix("verify-") in pattern.former_names):
                return self.checks[pattern.checks[0]]
        return None

    def _stage(self, watch: Watch, pattern: FailurePattern | None) -> str:
        """The stage of a check, from the environment, the tags and the contexts in which its failures happened."""
        if pattern is None or watch.action:
            return check_templates.stage(_places(watch.features), [*_labels(watch.features), watch.context])
        accounts = self.shelf.patterns[watch.pattern].accounts[-NEWEST:]
        around = [self.ledger.accounts[number].context.features for number in accounts]
        labels = [label for features in around for label in _labels(features)]
        return check_templates.stage(pattern.environments, [*labels, *pattern.contexts])

    def _view_check(self, watch: Watch, pattern: FailurePattern | None) -> PreventionCheck:
        texts = (
            ((watch.action,), (watch.context,))
            if watch.action or pattern is None
            else (pattern.actions, pattern.contexts)
        )
        told = check_templates.what_to_verify(pattern) if pattern else check_templates.what_to_consider(watch.action)
        return PreventionCheck(
            id=watch.id,
            name=watch.title,
            pattern_id=watch.pattern,
            verify=watch.verify or told,
            rule=check_templates.rule(*texts, error_text(pattern) if pattern else ""),
            stage=watch.stage or self._stage(watch, pattern),
            command=watch.command,
            status=watch.status,
            created_at=from_micros(watch.created),
            fired=watch.fired,
            last_fired=None if watch.last_fired is None else from_micros(watch.last_fired),
            runs=watch.runs,
            passed=watch.passed,
            effect=effect(watch.counts),
        )


def _places(features: Iterable[str]) -> list[str]:
    """List the environments among some features, in a fixed order."""
    return [feature.partition("=")[2] for feature in sorted(features) if feature.startswith("env=")]


def _labels(features: Iterable[str]) -> list[str]:
    """List the values of the other features, such as the tags, in a fixed order."""
    return [feature.partition("=")[2] for feature in sorted(features) if not feature.startswith("env=")]


def _forms(event: Happening | _Said) -> tuple[Action, Context]:
    return actions.action(event.action), actions.context(event.context, event.features, event.environment)


def _is_same(one: Action, other: Action) -> bool:
    """Tell whether two actions are one in other spellings or with other values."""
    return one.does == other.does and same_action(one, other) >= CLOSE


def _does_the_same_task(action: Action, asked: Action) -> bool:
    """Tell whether an action is another way to do what was asked about, or does it, too ("clean up, then build")."""
    return action.does == actions.sibling(asked) or {*asked.does} <= {*action.does, *action.rest}


def _went_well(event: Happening) -> bool:
    return event.kind == "decision" and not event.error.strip() and (event.quality is None or event.quality >= GOOD)


def _features(event: Happening) -> frozenset[str]:
    return event.features | ({f"env={event.environment}"} if event.environment.strip() else frozenset())


def _place(event: Happening | _Said) -> str:
    return digest(event.agent, actions.context(event.context, event.features, event.environment).key)


def _catch_up(counts: Counts, account: Account) -> None:
    counts.before += account.tried
    counts.before_failed += account.tried - account.went_well


def _tally(pattern: Pattern, account: Account | None, agent: str, environment: str, by: int) -> None:
    texts = [(pattern.agents, agent), (pattern.environments, environment.strip())]
    if account is not None:
        texts += [(pattern.actions, account.action_text), (pattern.contexts, account.context_text)]
        texts += [(pattern.heads, " ".join(account.action.head))]
    for counts, text in texts:
        if text:
            counts[text] = counts.get(text, 0) + by
            if not counts[text]:
                del counts[text]


def _plain(value: Any) -> dict[str, Any]:
    """The fields of a value as JSON."""
    plain = asdict(value)
    sets = {name: sorted(one) for name, one in plain.items() if isinstance(one, frozenset)}
    return plain | sets | {name: list(one) for name, one in plain.items() if isinstance(one, tuple)}


def _forget_oldest(kept: dict[str, Any]) -> None:
    while len(kept) > REMEMBERED:
        del kept[next(iter(kept))]
