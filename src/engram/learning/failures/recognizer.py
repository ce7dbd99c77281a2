"""Recognise recurring failures by their signature, with the action, the context and the solutions that helped.

All state is folded from events in the order they were recorded: the same events give the same state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from engram.clock import from_micros, micros
from engram.learning.actions import parsing
from engram.learning.actions.history import SIMILAR_ENOUGH, ActionAccount, ActionAttempt, ActionHistory
from engram.learning.actions.parsing import ParsedAction, ParsedContext, action_similarity
from engram.learning.failures import check_templates
from engram.learning.failures.check_effect import CheckCounts, effect, next_status
from engram.learning.failures.pattern_index import EPISODES, Pattern, PatternIndex, SolutionRecord
from engram.learning.failures.signatures import extract_error_signature
from engram.learning.failures.variable_parts import error_text
from engram.learning.situations.wordings import wording_key
from engram.model.failure import CheckStatus, FailurePattern, PreventionCheck
from engram.text.terms import digest, normal_form

GOOD = 0.5
"""Quality below which an outcome is a failure."""
ANSWERED_WITHIN = timedelta(hours=1)
"""Taking the action in the same context within this time answers a verdict that it does not name."""
REMEMBERED = 10_000
"""Decisions and verdicts kept because they may get an outcome; the oldest are dropped first."""
MOST_WAITING = 8
_NUMBERED = re.compile(r"(.+)-([2-9]|[1-9]\d{1,5})")
NEWEST_ACCOUNTS = 20
"""Accounts of a pattern, the newest, whose tags decide its stage."""


@dataclass(frozen=True, slots=True)
class FailureEvent:
    """One canonical event, as far as failures are concerned; fields that its kind does not need stay empty.

    failure   an error, with the action, context and environment if known, and the solution applied, if any;
              `subject` is the id of the decision that failed, if it was recorded: then it is the same occurrence
    solution  another try of a solution; `subject` is the id of the failure or of its pattern, or the pattern's name
    decision  an action in a context; `quality` if the outcome is known, `error` if it failed with one;
              `based_on` are the ids it was informed by, which may be verdicts
    outcome   the outcome of the decision or verdict `subject`: `quality`, and `error` if there was one; the last
              one counts
    check     a prevention check made or changed by a user for the pattern `subject` (its id, name, or a failure of it);
              without a pattern it stands alone and needs an `action`; a check known by `id` or `name` is changed
    checked   a verdict: `verdict` and the ids of the `checks` that fired
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
    """The benefit of the solution, 0 to 1; a solution without it is assumed to have helped."""
    quality: float | None = None
    name: str = ""
    verify: str = ""
    stage: str = ""
    command: tuple[str, ...] | None = None
    status: Literal["", "active", "loosened", "retired"] = ""
    verdict: Literal["", "allow", "warn", "block"] = ""
    checks: tuple[str, ...] = ()
    memory: str = ""
    """An occurrence of the failure that `subject` names, in case an earlier version knew it by another id."""
    situation: str = ""
    """The situation of the context, if it has one."""
    based_on: tuple[str, ...] = ()


@dataclass(slots=True)
class CheckState:
    """A prevention check: its description, its counts, and whether a user set its status."""

    id: str
    pattern: str
    created: int
    name: str = ""
    verify: str = ""
    stage: str = ""
    """The stage set by a user; if empty, it is derived from where the failures happened."""
    title: str = ""
    """Its unique display name: the name a user gave it, else a derived one."""
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
    """The time its command last found the condition met; `None` if it failed since."""
    counts: CheckCounts = field(default_factory=CheckCounts)


@dataclass(slots=True)
class _RecordedDecision:
    """A decision: its account in the history, the verdicts it answers, and what was counted for it."""

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
class _RecordedVerdict:
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
    """The time a remedy was applied before the action; the next outcome of the action tells whether it helped."""


class PatternRecognizer:
    """Finds recurring failures: a pure fold over events; queries change nothing."""

    def __init__(self) -> None:
        self.history = ActionHistory()
        self.index = PatternIndex()
        self.checks: dict[str, CheckState] = {}
        self._aliases: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        """Check ids by display name."""
        self._of_account: dict[int, list[str]] = {}
        self._of_event: dict[str, str] = {}
        self._rules: dict[tuple[str, ...], list[str]] = {}
        self._decisions: dict[str, _RecordedDecision] = {}
        self._verdicts: dict[str, _RecordedVerdict] = {}
        self._waiting: dict[str, list[str]] = {}

    def fold(self, event: FailureEvent) -> None:
        """Learn from one event; an event about an unknown subject has no effect."""
        {
            "failure": self._fold_failure,
            "solution": self._fold_solution,
            "decision": self._fold_decision,
            "outcome": self._fold_outcome,
            "check": self._fold_check,
            "checked": self._fold_verdict,
            "ran": self._fold_check_run,
        }[event.kind](event)

    def patterns(self) -> list[FailurePattern]:
        """Return all patterns, the most recently seen first."""
        seen = [self.view(pattern) for pattern in self.index.patterns.values() if pattern.times]
        return sorted(seen, key=lambda one: (-micros(one.last_seen), one.pattern_id))

    def pattern(self, name: str) -> FailurePattern | None:
        """Return the pattern with this id or name, or the one that a failure with this id belongs to."""
        found = self._find_pattern(name)
        return self.view(found) if found is not None and found.times else None

    def by_former_name(self, name: str) -> list[FailurePattern]:
        """Return the patterns that earlier versions may have known by a name that no pattern has now.

        They numbered patterns of one name in order of appearance: `timeout-2` is the second of those called `timeout`.
        """
        found = [pattern for pattern in self.index.patterns.values() if pattern.times and name in pattern.former_names]
        if not found and (numbered := _NUMBERED.fullmatch(name)):
            every = [one for one in self.index.patterns.values() if numbered[1] in one.former_names]
            found = [one for one in every[int(numbered[2]) - 1 :][:1] if one.times]
        return [self.view(pattern) for pattern in found]

    def find(self, error: str, action: str = "") -> FailurePattern | None:
        """Return the pattern of the same or a similar signature, without learning."""
        found = self.index.find(extract_error_signature(error), " ".join(parsing.parse_action(action).head))
        return self.view(found) if found is not None and found.times else None

    def view(self, pattern: Pattern) -> FailurePattern:
        """Return a pattern with its prevention checks as a model."""
        seen = pattern.to_model()
        checks = tuple(self._view_check(self.checks[id], seen) for id in pattern.checks)
        return seen.model_copy(update={"prevention_checks": checks})

    def prevention_checks(self) -> list[PreventionCheck]:
        """Return all prevention checks, in the order they were made."""
        views: dict[str, FailurePattern | None] = {"": None}
        for id in dict.fromkeys(check.pattern for check in self.checks.values() if check.pattern):
            views[id] = self.index.patterns[id].to_model() if self.index.patterns[id].times else None
        return [self._view_check(check, views[check.pattern]) for check in self.checks.values()]

    def prevention_check(self, name: str) -> PreventionCheck | None:
        """Return the check with this id or name."""
        check = self._find_check(name) or self._find_check_by_former_name(name)
        if check is None:
            return None
        pattern = self.index.patterns.get(check.pattern)
        return self._view_check(check, pattern.to_model() if pattern and pattern.times else None)

    def rules(self, action: ParsedAction) -> list[CheckState]:
        """Return the checks made for an action of their own that does the same, or for a sibling of it."""
        both = (*self._rules.get(action.does, ()), *self._rules.get(parsing.sibling_stems(action) or (), ()))
        return [self.checks[id] for id in both]

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "version": 1,
            "ledger": self.history.dump(),
            "shelf": self.index.dump(),
            "checks": [_to_json(check) for check in self.checks.values()],
            "aliases": dict(self._aliases),
            "titles": dict(self._titles),
            "events": dict(self._of_event),
            "taken": [_to_json(decision) for decision in self._decisions.values()],
            "said": [_to_json(verdict) for verdict in self._verdicts.values()],
            "waiting": {place: list(ids) for place, ids in self._waiting.items()},
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> PatternRecognizer:
        """Restore from the output of `dump`."""
        own = cls()
        own.history, own.index = ActionHistory.load(state["ledger"]), PatternIndex.load(state["shelf"])
        for pattern in own.index.patterns.values():
            for account in pattern.accounts:
                own._of_account.setdefault(account, []).append(pattern.id)
        for one in state["checks"]:
            command = None if one["command"] is None else tuple(one["command"])
            counts = CheckCounts(**one["counts"])
            own._index_check(
                CheckState(**{**one, "command": command, "counts": counts, "features": frozenset(one["features"])})
            )
        own._aliases, own._of_event = dict(state["aliases"]), dict(state["events"])
        own._titles = dict(state["titles"])
        own._decisions = {one["id"]: _RecordedDecision(**one) for one in state["taken"]}
        for one in state["said"]:
            own._verdicts[one["id"]] = _RecordedVerdict(
                **{**one, "features": frozenset(one["features"]), "checks": tuple(one["checks"])}
            )
        own._waiting = {place: list(ids) for place, ids in state["waiting"].items()}
        return own

    def _fold_failure(self, event: FailureEvent) -> None:
        decision = self._decisions.get(event.subject or "")
        if decision is not None:
            quality = decision.quality if decision.quality is not None and decision.quality < GOOD else 0.0
            self._apply_outcome(decision, quality, event)
            pattern = self.index.patterns[decision.pattern or ""]
            self._of_event[event.id] = pattern.id
        else:
            action, context = _parse(event)
            account = self._account(event, action, context) if action.key else None
            pattern = self._recognise(event, event.action, event.context, action, context)
            self._add_occurrence(pattern, event.id, event, account)
            if account is not None:
                where = wording_key(event.context)
                self.history.add(
                    account, ActionAttempt(event.id, micros(event.at), 0.0, action.exact, pattern.id, where)
                )
                self._count_attempt(
                    account, 0.0, self._answer_verdicts(event, action), self._watch_account(pattern, account)
                )
        if event.solution.strip():
            self._record_solution(pattern, event)
        self._suggest_check(pattern, event)
        if event.verify.strip():
            check = self._suggested_check(pattern, event)
            check.verify = event.verify
            self._update_title(check)

    def _fold_solution(self, event: FailureEvent) -> None:
        pattern = self._pattern_of(event)
        if pattern is None and event.error.strip():
            pattern = self.index.find(
                extract_error_signature(event.error), " ".join(parsing.parse_action(event.action).head)
            )
            if pattern is None:
                self._fold_failure(event)
                return
        if pattern is not None and event.solution.strip():
            self._record_solution(pattern, event)
            self._suggest_check(pattern, event)

    def _fold_decision(self, event: FailureEvent) -> None:
        action, context = _parse(event)
        if not action.key:
            if event.error.strip():
                self._fold_failure(event)
            return
        account = self._account(event, action, context)
        decision = _RecordedDecision(
            event.id, micros(event.at), event.agent, account.number, action.exact, event.environment
        )
        decision.wording, decision.answers = wording_key(event.context), self._answer_verdicts(event, action)
        self._decisions[event.id] = decision
        _forget_oldest(self._decisions)
        if event.quality is not None or event.error.strip():
            self._apply_outcome(decision, 0.0 if event.quality is None else event.quality, event)

    def _fold_outcome(self, event: FailureEvent) -> None:
        decision, verdict = self._decisions.get(event.subject or ""), self._verdicts.get(event.subject or "")
        if decision is None and verdict is not None:
            action, context = _parse(verdict)
            account = self._account(verdict, action, context)
            decision = _RecordedDecision(
                verdict.id, micros(event.at), verdict.agent, account.number, action.exact, verdict.environment
            )
            decision.wording = wording_key(verdict.context)
            decision.answers = self._close_answered([verdict], decision.at)
            self._decisions[verdict.id] = decision
            _forget_oldest(self._decisions)
        if decision is not None:
            self._apply_outcome(decision, 0.0 if event.quality is None else event.quality, event)

    def _fold_check(self, event: FailureEvent) -> None:
        pattern = self._pattern_of(event)
        if pattern is None and event.error.strip():
            pattern = self.index.find(
                extract_error_signature(event.error), " ".join(parsing.parse_action(event.action).head)
            )
        check, named = self._find_check(event.id), self._find_check(event.name)
        if named is None and not event.action.strip():
            named = self._find_check_by_former_name(event.name)
        if check is None and named is not None and (pattern is None or named.pattern == pattern.id):
            check = named
        if check is None and pattern is not None and not event.action.strip():
            check = self._suggested_check(pattern, event)
            self._aliases[event.id] = check.id
        if check is None:
            if not event.action.strip():
                return
            check = CheckState(event.id, pattern.id if pattern else "", micros(event.at))
            check.action, check.context, check.features = event.action, event.context, _features(event)
            self._index_check(check)
            if pattern is not None:
                self._attach(pattern, check)
        check.name = self._free_name(event.name, check.id) if event.name else check.name
        check.verify = event.verify or check.verify
        check.stage = event.stage or check.stage
        check.command = event.command if event.command is not None else check.command
        if event.status and (check.held or event.status != "active"):
            # Generating a check again passes "active", which must not reset its earned status.
            check.held = event.status != "active"
            check.status = event.status
            check.counts.restart()
        self._update_title(check)

    def _fold_verdict(self, event: FailureEvent) -> None:
        fired = self._checks_of_verdict(event)
        for check in fired:
            check.fired += 1
            check.last_fired = micros(event.at)
        if event.verdict in ("warn", "block"):
            self.history.count_refusal(*_parse(event))
        elif event.verdict == "allow":
            self.history.start_trial(*_parse(event))
        verdict = _RecordedVerdict(
            event.id,
            micros(event.at),
            event.agent,
            event.action,
            event.context,
            event.features,
            event.environment,
            tuple(check.id for check in fired),
        )
        self._verdicts[event.id] = verdict
        _forget_oldest(self._verdicts)
        if fired:
            waiting = self._waiting.pop(_context_key(event), [])
            self._waiting[_context_key(event)] = [*waiting, event.id][-MOST_WAITING:]
            _forget_oldest(self._waiting)

    def _checks_of_verdict(self, event: FailureEvent) -> list[CheckState]:
        """Return the checks that a verdict names; if none is known, those of what failed at this action here.

        An earlier version knew a failure, and so its check, by another id.
        """
        named = [check for id in event.checks if (check := self._find_check(id)) is not None]
        if named or not event.checks:
            return named
        failed = [
            one.pattern
            for match in self.history.matches(*_parse(event))
            for one in match.episodes
            if one.pattern is not None
        ]
        checks = [id for pattern in dict.fromkeys(failed) for id in self.index.patterns[pattern].checks]
        return [self.checks[id] for id in checks[: len(event.checks)]]

    def _fold_check_run(self, event: FailureEvent) -> None:
        check = self._find_check(event.subject or "")
        if check is None and (pattern := self._find_pattern(event.memory)) is not None:
            check = next((self.checks[id] for id in pattern.checks), None)
        if check is not None:
            met = event.quality is not None and event.quality >= GOOD
            check.runs += 1
            check.passed += met
            check.verified = micros(event.at) if met else None

    def _account(
        self, event: FailureEvent | _RecordedVerdict, action: ParsedAction, context: ParsedContext
    ) -> ActionAccount:
        return self.history.get_or_create(event.action, event.context, action, context)

    def _recognise(
        self, event: FailureEvent, text: str, place: str, action: ParsedAction, context: ParsedContext
    ) -> Pattern:
        """Return the pattern of an error; without an error, that of the action in its situation and circumstances."""
        if event.error.strip() or not action.key:
            return self.index.find_or_add(extract_error_signature(event.error), action.head)
        where = (event.situation, *sorted(context.features)) if event.situation else (context.key,)
        return self.index.find_or_add_unexplained(text, place, digest("action", action.key, *where), action.head)

    def _apply_outcome(self, decision: _RecordedDecision, quality: float, event: FailureEvent) -> None:
        """Record the outcome of a decision; a later outcome replaces an earlier one and everything learned from it."""
        error = event.error
        account = self.history.accounts[decision.account]
        action = account.action
        before, earlier = decision.quality, decision.pattern
        self._undo_outcome(decision)
        pattern = None
        if quality < GOOD or (error.strip() and quality < 1):
            known = [id for id in self._of_account.get(account.number, ()) if self.index.patterns[id].times]
            if not error.strip() and earlier is not None:
                pattern = self.index.patterns[earlier]
            elif not error.strip() and len(known) == 1:
                pattern = self.index.patterns[known[0]]
            else:
                pattern = self._recognise(event, account.action_text, account.context_text, action, account.context)
        decision.quality, decision.pattern = quality, pattern.id if pattern else None
        if before is None:
            self.history.add(
                account,
                ActionAttempt(decision.id, decision.at, quality, decision.exact, decision.pattern, decision.wording),
            )
        else:
            self.history.correct_outcome(account, decision.id, quality, decision.pattern, before)
        joined: list[str] = []
        if pattern is not None:
            self._add_occurrence(pattern, decision.id, decision, account)
            joined = self._watch_account(pattern, account)
        decision.counted = self._count_attempt(account, quality, decision.answers, joined)
        if pattern is not None:
            self._suggest_check(pattern, decision)

    def _undo_outcome(self, decision: _RecordedDecision) -> None:
        """Undo what a decision's earlier outcome was counted as."""
        if decision.quality is None:
            return
        for id, how in decision.counted.items():
            counts = self.checks[id].counts
            if how in ("ahead", "changed"):
                counts.count_spoken(decision.quality, ahead=how == "ahead", times=-1)
            else:
                counts.count_silent(decision.quality, loosened=how == "loosened", times=-1)
        if decision.pattern is not None:
            pattern, account = self.index.patterns[decision.pattern], self.history.accounts[decision.account]
            pattern.times.pop(decision.id, None)
            self._of_event.pop(decision.id, None)
            _count_texts(pattern, account, decision.agent, decision.environment, -1)

    def _add_occurrence(
        self, pattern: Pattern, id: str, event: FailureEvent | _RecordedDecision, account: ActionAccount | None
    ) -> None:
        pattern.times[id] = event.at if isinstance(event.at, int) else micros(event.at)
        self._of_event[id] = pattern.id
        _count_texts(pattern, account, event.agent, event.environment, 1)
        if account is None and isinstance(event, FailureEvent) and event.context.strip():
            pattern.contexts[event.context] = pattern.contexts.get(event.context, 0) + 1

    def _watch_account(self, pattern: Pattern, account: ActionAccount) -> list[str]:
        """Make a pattern's checks watch an account; return those that start to, with its past counted."""
        if account.number in pattern.accounts:
            return []
        pattern.accounts.append(account.number)
        self._of_account.setdefault(account.number, []).append(pattern.id)
        for id in pattern.checks:
            _count_past(self.checks[id].counts, account)
        return list(pattern.checks)

    def _count_attempt(
        self, account: ActionAccount, quality: float, answers: Mapping[str, bool], joined: list[str]
    ) -> dict[str, str]:
        """Count an attempt for the checks that watch its account or had fired; return how each counted it."""
        counted = {id: "ahead" if ahead else "changed" for id, ahead in answers.items()}
        watching = [
            id for pattern in self._of_account.get(account.number, ()) for id in self.index.patterns[pattern].checks
        ]
        counted |= {id: "silent" for id in watching if id not in counted}
        for id, how in counted.items():
            check = self.checks[id]
            if how != "silent":
                check.counts.count_spoken(quality, ahead=how == "ahead")
            else:
                counted[id] = "loosened" if check.status == "loosened" else how
                check.counts.count_silent(quality, loosened=check.status == "loosened", known=id in joined)
            self._update_status(check)
        return counted

    def _update_status(self, check: CheckState) -> None:
        status = check.status if check.held else next_status(check.status, check.counts)
        if status != check.status:
            check.status = status
            check.counts.restart()

    def _record_solution(self, pattern: Pattern, event: FailureEvent) -> None:
        text = event.solution.strip()
        solution = pattern.solutions.setdefault(normal_form(text), SolutionRecord(text))
        solution.tried += 1
        solution.helped += 1.0 if event.helped is None else event.helped
        solution.noted += event.kind == "failure" and event.helped is None
        solution.last_used = max(solution.last_used, micros(event.at)) if solution.tried > 1 else micros(event.at)
        if event.agent and event.agent not in solution.agents:
            solution.agents.append(event.agent)
        solution.episodes = [*solution.episodes, event.id][-EPISODES:]

    def _suggest_check(self, pattern: Pattern, event: FailureEvent | _RecordedDecision) -> None:
        """Make the check of a pattern once it recurred, or once a solution is known."""
        for id in pattern.checks:
            self._update_title(self.checks[id])
        solved = any(solution.rate > GOOD for solution in pattern.solutions.values())
        if not pattern.checks and (solved or (pattern.recurring and pattern.accounts)):
            self._suggested_check(pattern, event)

    def _suggested_check(self, pattern: Pattern, event: FailureEvent | _RecordedDecision) -> CheckState:
        id = check_templates.check_id(pattern.id)
        if id not in self.checks:
            check = CheckState(id, pattern.id, event.at if isinstance(event.at, int) else micros(event.at))
            self._index_check(check)
            self._attach(pattern, check)
        self._update_title(self.checks[id])
        return self.checks[id]

    def _update_title(self, check: CheckState) -> None:
        """Update the display name of a check: the one it was given, or one derived from its subject."""
        check.title = check.name or self._derive_name(check)
        self._titles[check.title] = check.id

    def _derive_name(self, check: CheckState) -> str:
        """Return a unique name that tells what a check is about."""
        pattern = self.index.patterns.get(check.pattern)
        if pattern is None:
            return self._free_name(check_templates.action_check_name(check.action), check.id)
        solution = next((one.text for one in pattern.ranked_solutions()[:1] if one.rate >= GOOD), "")
        name = check_templates.check_name(pattern.name, solution or check.verify)
        if self._titles.get(name, check.id) == check.id:
            return name
        return self._free_name(check_templates.pattern_check_name(pattern.name), check.id)

    def _free_name(self, name: str, id: str) -> str:
        """Return the name, with a number if another check has it."""
        number, free = 1, name
        while self._titles.get(free, id) != id:
            number += 1
            free = check_templates.another_name(name, number)
        return free

    def _attach(self, pattern: Pattern, check: CheckState) -> None:
        pattern.checks.append(check.id)
        for number in pattern.accounts:
            _count_past(check.counts, self.history.accounts[number])

    def _index_check(self, check: CheckState) -> None:
        self.checks[check.id] = check
        if check.action:
            self._rules.setdefault(parsing.parse_action(check.action).does, []).append(check.id)

    def _answer_verdicts(self, event: FailureEvent, action: ParsedAction) -> dict[str, bool]:
        """Return the checks whose verdicts an action answers, each with whether it was ignored.

        Another action answers only the verdicts it names; a remedy applied before the action answers none yet.
        """
        named = [id for id in (event.subject or "", *event.based_on) if id in self._verdicts]
        waiting = [id for id in self._waiting.get(_context_key(event), ()) if self._is_waiting(id, micros(event.at))]
        taken, changed = list[_RecordedVerdict](), list[_RecordedVerdict]()
        for verdict in (self._verdicts[id] for id in dict.fromkeys([*waiting, *named])):
            asked = parsing.parse_action(verdict.action)
            remedy = self._is_remedy(verdict, action) and action.exact != asked.exact
            if remedy and not _does_the_same_task(action, asked):
                verdict.heeded = micros(event.at) if _went_well(event) else verdict.heeded
            elif remedy or (verdict.id in named and not _is_same(asked, action)):
                changed.append(verdict)
            elif _is_same(asked, action):
                taken.append(verdict)
        for verdict in changed:
            self._close_verdict(verdict)
        return {id: False for verdict in changed for id in verdict.checks} | self._close_answered(
            taken, micros(event.at)
        )

    def _close_answered(self, taken: Sequence[_RecordedVerdict], at: int) -> dict[str, bool]:
        """Close the verdicts whose action is taken; return their checks, each with whether it was ignored."""
        heeded = {
            id for verdict in taken for id in verdict.checks if verdict.heeded or self._verified(id, verdict.at, at)
        }
        for verdict in taken:
            self._close_verdict(verdict)
        return {id: id not in heeded for verdict in taken for id in verdict.checks}

    def _close_verdict(self, verdict: _RecordedVerdict) -> None:
        """Stop waiting for an answer to a verdict."""
        place, verdict.heeded = _context_key(verdict), None
        left = [id for id in self._waiting.pop(place, ()) if id != verdict.id]
        if left:
            self._waiting[place] = left

    def _is_waiting(self, id: str, until: int) -> bool:
        """Return whether a verdict is known and recent."""
        verdict = self._verdicts.get(id)
        if verdict is None:
            return False
        age = until - (verdict.heeded or verdict.at)
        return 0 <= age <= ANSWERED_WITHIN / timedelta(microseconds=1)

    def _is_remedy(self, verdict: _RecordedVerdict, action: ParsedAction) -> bool:
        """Return whether an action is a known solution of a verdict's failure, or what one of its checks asks for."""
        checks = [self.checks[id] for id in verdict.checks]
        patterns = [self.index.patterns[check.pattern] for check in checks if check.pattern]
        texts = [one.text for pattern in patterns for one in pattern.solutions.values()]
        texts += [check.verify for check in checks if check.verify]
        return any(_is_same(parsing.parse_action(text), action) for text in texts)

    def _verified(self, check: str, since: int, until: int) -> bool:
        """Return whether the condition of a check was found to be met between a verdict and the action."""
        at = self.checks[check].verified
        return at is not None and since <= at <= until

    def _pattern_of(self, event: FailureEvent) -> Pattern | None:
        """Return the pattern that an event is about."""
        return self._find_pattern(event.subject or "") or self._find_pattern(event.memory)

    def _find_pattern(self, name: str) -> Pattern | None:
        id = name if name in self.index.patterns else self.index.names.get(name) or self._of_event.get(name)
        return self.index.patterns[id] if id else None

    def _find_check(self, name: str) -> CheckState | None:
        return self.checks.get(self._aliases.get(name) or self._titles.get(name, name))

    def _find_check_by_former_name(self, name: str) -> CheckState | None:
        """Return the check that an earlier version named after its solution or pattern."""
        for pattern in self.index.patterns.values() if name.startswith("verify-") else ():
            solved = [check_templates.former_check_name(solution.text) for solution in pattern.ranked_solutions()[:1]]
            if pattern.checks and (name in solved or name.removeprefix("verify-") in pattern.former_names):
                return self.checks[pattern.checks[0]]
        return None

    def _stage(self, check: CheckState, pattern: FailurePattern | None) -> str:
        """Return the stage of a check, from the environments, tags and contexts of its failures."""
        if pattern is None or check.action:
            return check_templates.stage(_environments(check.features), [*_labels(check.features), check.context])
        accounts = self.index.patterns[check.pattern].accounts[-NEWEST_ACCOUNTS:]
        around = [self.history.accounts[number].context.features for number in accounts]
        labels = [label for features in around for label in _labels(features)]
        return check_templates.stage(pattern.environments, [*labels, *pattern.contexts])

    def _view_check(self, check: CheckState, pattern: FailurePattern | None) -> PreventionCheck:
        texts = (
            ((check.action,), (check.context,))
            if check.action or pattern is None
            else (pattern.actions, pattern.contexts)
        )
        told = check_templates.what_to_verify(pattern) if pattern else check_templates.what_to_consider(check.action)
        return PreventionCheck(
            id=check.id,
            name=check.title,
            pattern_id=check.pattern,
            verify=check.verify or told,
            rule=check_templates.rule(*texts, error_text(pattern) if pattern else ""),
            stage=check.stage or self._stage(check, pattern),
            command=check.command,
            status=check.status,
            created_at=from_micros(check.created),
            fired=check.fired,
            last_fired=None if check.last_fired is None else from_micros(check.last_fired),
            runs=check.runs,
            passed=check.passed,
            effect=effect(check.counts),
        )


def _environments(features: Iterable[str]) -> list[str]:
    """Return the environments among some features, sorted."""
    return [feature.partition("=")[2] for feature in sorted(features) if feature.startswith("env=")]


def _labels(features: Iterable[str]) -> list[str]:
    """Return the values of the other features, such as tags, sorted."""
    return [feature.partition("=")[2] for feature in sorted(features) if not feature.startswith("env=")]


def _parse(event: FailureEvent | _RecordedVerdict) -> tuple[ParsedAction, ParsedContext]:
    return parsing.parse_action(event.action), parsing.parse_context(event.context, event.features, event.environment)


def _is_same(one: ParsedAction, other: ParsedAction) -> bool:
    """Return whether two actions are equal but for spelling or values."""
    return one.does == other.does and action_similarity(one, other) >= SIMILAR_ENOUGH


def _does_the_same_task(action: ParsedAction, asked: ParsedAction) -> bool:
    """Return whether an action is another way to do what was asked about, or includes it ("clean up, then build")."""
    return action.does == parsing.sibling_stems(asked) or {*asked.does} <= {*action.does, *action.rest}


def _went_well(event: FailureEvent) -> bool:
    return event.kind == "decision" and not event.error.strip() and (event.quality is None or event.quality >= GOOD)


def _features(event: FailureEvent) -> frozenset[str]:
    return event.features | ({f"env={event.environment}"} if event.environment.strip() else frozenset())


def _context_key(event: FailureEvent | _RecordedVerdict) -> str:
    return digest(event.agent, parsing.parse_context(event.context, event.features, event.environment).key)


def _count_past(counts: CheckCounts, account: ActionAccount) -> None:
    counts.before += account.tried
    counts.before_failed += account.tried - account.went_well


def _count_texts(pattern: Pattern, account: ActionAccount | None, agent: str, environment: str, by: int) -> None:
    texts = [(pattern.agents, agent), (pattern.environments, environment.strip())]
    if account is not None:
        texts += [(pattern.actions, account.action_text), (pattern.contexts, account.context_text)]
        texts += [(pattern.heads, " ".join(account.action.head))]
    for counts, text in texts:
        if text:
            counts[text] = counts.get(text, 0) + by
            if not counts[text]:
                del counts[text]


def _to_json(value: Any) -> dict[str, Any]:
    """Return the fields of a value as JSON."""
    plain = asdict(value)
    sets = {name: sorted(one) for name, one in plain.items() if isinstance(one, frozenset)}
    return plain | sets | {name: list(one) for name, one in plain.items() if isinstance(one, tuple)}


def _forget_oldest(kept: dict[str, Any]) -> None:
    while len(kept) > REMEMBERED:
        del kept[next(iter(kept))]
