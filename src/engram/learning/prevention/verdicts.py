"""Decide whether an action may run, from past attempts in similar contexts, weighed by similarity and age.

Evidence has three rings: the identical action in the same context, the same action with other values, and similar ones.
Each ring starts from the estimate of the wider one and is moved by its own attempts; older ones count less, by time and
by later outcomes, so that a fixed or newly broken action is noticed. A refused action can never prove itself: so after
a number of refusals, which grows with the failures, one trial is let through. No embeddings are used: the same question
gets the same answer, fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from engram.clock import from_micros, micros
from engram.learning.actions import parsing
from engram.learning.actions.history import SAME_SITUATION, ActionAccount, HistoryMatch, SituationView
from engram.learning.actions.parsing import ParsedAction, ParsedContext, action_similarity, context_similarity
from engram.learning.decisions.belief import SituationOutcome, circumstances, rate_in_situation
from engram.learning.decisions.beta import Beta
from engram.learning.decisions.rate_changes import RateChange
from engram.learning.failures.check_templates import generate_prevention_strategies
from engram.learning.failures.pattern_index import Pattern
from engram.learning.failures.recognizer import GOOD, CheckState, PatternRecognizer
from engram.model.failure import CheckStatus, Decision, KnownFailure, Remedy, Verdict
from engram.text.terms import index_terms

__all__ = ["SETTINGS", "VerdictSettings", "check", "failed_elsewhere", "generate_prevention_strategies", "is_trial"]

VERY_SAME, SAME, SIMILAR = 0, 1, 2
SHOWN = 5
EPISODES = 5
NAMED_SIMILARITY = 0.6
"""Similarity of a failure whose message names the action."""
TRIAL_REASON = "it was refused often since it last failed; a try will tell whether it still does"
LOOKED_AT = 64
"""Outcomes in a situation that are considered, the newest."""
COMPARED = 48
"""Accounts of other actions considered as alternatives."""


@dataclass(frozen=True, slots=True)
class VerdictSettings:
    """Weights of evidence, and the amount of it that warnings and blocks need."""

    half_life: timedelta = timedelta(days=90)
    refusals: float = 3.0
    """Refusals per failure in a row after which one trial is let through; 0 for never."""
    patience: float = 2.5
    """Most failures in a row that add to the refusals needed."""
    fading: float = 0.8
    """Factor on the weight of an attempt for each later one of full weight."""
    mended: float = 0.3
    """Factor on the weight of a failure for a later success."""
    broken: float = 0.5
    """Factor on the weight of a success for a later failure, which may be chance."""
    unknown: float = 0.15
    """Expected share of failures of an action without attempts."""
    hold: float = 2.0
    """Weight of the wider ring as the prior of a ring, in attempts."""
    other_values: float = 0.6
    """Weight of an attempt of the same action with other values."""
    everywhere: float = 0.6
    """Least weight of a failure that occurs with all kinds of actions."""
    warn: float = 1 / 3
    """Expected share of failures above which there is a warning."""
    block: float = 0.6
    """Probability that the action mostly fails above which it is blocked."""
    repeated: int = 2
    """Failures needed for a block."""
    surely: float = 0.6
    """Probability that it mostly fails in its situation above which there is a warning in any case."""
    near: float = 0.8
    """Similarity needed for a block, if the action was never tried in this very context."""


SETTINGS = VerdictSettings()


class _WeighedAttempt(NamedTuple):
    """One attempt as evidence."""

    ring: int
    at: int
    weight: float
    quality: float
    pattern: str | None
    same: bool = True


@dataclass(frozen=True, slots=True)
class _RingBelief:
    """The estimate from all rings."""

    rate: Beta
    failures: int
    succeeded_last: bool
    only_failed: bool
    """True if the identical action was tried lately, and failed every time."""
    nearest: float


def check(
    known: PatternRecognizer,
    action: str,
    context: str = "",
    *,
    now: datetime,
    features: frozenset[str] = frozenset(),
    environment: str = "",
    situation: SituationView | None = None,
    settings: VerdictSettings = SETTINGS,
) -> Verdict:
    """Allow, warn or block, with the failures behind that and what worked instead; learns nothing.

    An unknown action is allowed, with empty lists. `situation` is that of the context.
    """
    parsed, where = parsing.parse_action(action), parsing.parse_context(context, features, environment)
    matches = known.history.matches(parsed, where, situation) if parsed.key else []
    named = _patterns_naming(known, parsed, where) if known.index.patterns else []
    made = known.rules(parsed) if known.checks else []
    rules = [check_state for check_state in made if _applies(check_state, parsed, where)]
    failed = [match for match in matches if any(one.quality < GOOD for one in match.episodes)]
    if not failed and not named and not rules:
        reason = _past_reason(matches)
        return Verdict(decision="allow", action=action, context=context, confidence=0.0, reason=reason)
    time = micros(now)
    attempts = _weigh_attempts(known, matches, named, parsed, time, settings)
    belief = _combine_rings(attempts, failed, settings)
    here = _in_situation(parsed, matches, now)
    sure = 1 - belief.rate.below(0.5)
    patterns = _patterns(known, attempts)
    status = _status(known, patterns[0]) if patterns else "active"
    failures = max(belief.failures, here.failures() if here else 0)
    decided = _reconcile(_decide(belief, sure, failures, settings), here and here.belief, failures, settings)
    decision = _apply_check_status(decided, status, attempts, failed, settings)
    due = decision != "allow" and _is_trial_due(failed, settings)
    decision = "allow" if due else decision
    spoke = _firing_checks(known, patterns, rules, decision)
    if decision == "allow" and any(check_state.status != "retired" for check_state in rules):
        decision = "warn"
    return Verdict(
        decision=decision,
        action=action,
        context=context,
        failures=_failures(known, matches, named),
        instead=_instead(known, patterns, parsed, where, failed, situation, now) if decision != "allow" else (),
        confidence=min(max(sure if here is None else here.belief.below(GOOD), 0.0), 1.0),
        failure_rate=belief.rate.mean if here is None else 1 - here.belief.mean,
        reason=TRIAL_REASON if due and decision == "allow" else _reason(decision, matches, failed, named, rules, here),
        checks=tuple(spoke) if decision != "allow" else (),
    )


def _past_reason(matches: Sequence[HistoryMatch]) -> str:
    """Describe what is known of an action that never failed."""
    qualities = [one.quality for match in matches for one in match.episodes]
    if not qualities:
        return "nothing is known about it"
    return "it worked before" if max(qualities) > GOOD else "it was tried before, and did not fail"


def is_trial(verdict: Verdict) -> bool:
    """Return whether an action is let through only to learn whether it still fails."""
    return verdict.decision == "allow" and verdict.reason == TRIAL_REASON


def failed_elsewhere(known: PatternRecognizer, action: str) -> bool:
    """Return whether such an action failed in any context, so that its situation matters."""
    return known.history.failed_elsewhere(parsing.parse_action(action))


def _applies(check_state: CheckState, parsed: ParsedAction, where: ParsedContext) -> bool:
    own = parsing.parse_context(check_state.context, check_state.features)
    return action_similarity(parsing.parse_action(check_state.action), parsed) * context_similarity(own, where) >= 0.6


def _patterns_naming(known: PatternRecognizer, parsed: ParsedAction, where: ParsedContext) -> list[Pattern]:
    """Return failures recorded without an action whose message names this one."""
    words = tuple(term for word in parsed.head for term in index_terms(word))
    return [pattern for pattern in known.index.find_mentioning(words)[:SHOWN] if _happens_in(pattern, where)]


def _happens_in(pattern: Pattern, where: ParsedContext) -> bool:
    contexts = [parsing.parse_context(text) for text in islice(pattern.contexts, COMPARED)]
    return not contexts or any(context_similarity(context, where) >= 0.5 for context in contexts)


def _weigh_attempts(
    known: PatternRecognizer,
    matches: Sequence[HistoryMatch],
    named: Sequence[Pattern],
    parsed: ParsedAction,
    now: int,
    settings: VerdictSettings,
) -> list[_WeighedAttempt]:
    """Return every attempt that counts with its weight, newest first."""
    found, worth = list[_WeighedAttempt](), dict[str, float]()
    head = " ".join(parsed.head)
    for match in matches:
        same = match.similarity == 1
        for one in match.episodes:
            ring = SIMILAR if not same else VERY_SAME if one.exact == parsed.exact else SAME
            weight = settings.other_values if ring == SAME else match.similarity**2
            if one.pattern is not None:
                if one.pattern not in worth:
                    share = known.index.patterns[one.pattern].share(head)
                    worth[one.pattern] = min(1.0, max(settings.everywhere, 3 * share))
                weight *= worth[one.pattern]
            found.append(_WeighedAttempt(ring, one.at, weight, one.quality, one.pattern, one.exact == parsed.exact))
    for pattern in named:
        times = sorted(pattern.times.values())[-EPISODES:]
        found += [_WeighedAttempt(SIMILAR, at, NAMED_SIMILARITY**2, 0.0, pattern.id) for at in times]
    found.sort(key=lambda attempt: (-attempt.at, attempt.ring))
    return _aged(found, now, settings)


def _aged(attempts: Iterable[_WeighedAttempt], now: int, settings: VerdictSettings) -> list[_WeighedAttempt]:
    """Reduce the weights by age and by later outcomes; the attempts are newest first.

    Outcomes of the identical action elsewhere count as later outcomes here; those with other values do not.
    """
    aged = list[_WeighedAttempt]()
    half_life = settings.half_life / timedelta(microseconds=1)
    good, bad = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    same_good, same_bad = 0.0, 0.0
    for attempt in attempts:
        ring = attempt.ring
        newer = good[ring] + bad[ring]
        gained, lost = (same_good, same_bad) if ring == VERY_SAME else (good[ring], bad[ring])
        against = settings.broken ** (attempt.quality * lost) * settings.mended ** ((1 - attempt.quality) * gained)
        kept: float = settings.fading**newer * against
        weight: float = attempt.weight * kept * 0.5 ** (max(0, now - attempt.at) / half_life)
        aged.append(_WeighedAttempt(ring, attempt.at, weight, attempt.quality, attempt.pattern, attempt.same))
        good[ring] += attempt.weight * attempt.quality
        bad[ring] += attempt.weight * (1 - attempt.quality)
        if attempt.same:
            same_good += attempt.weight * attempt.quality
            same_bad += attempt.weight * (1 - attempt.quality)
    return aged


def _combine_rings(
    attempts: Sequence[_WeighedAttempt], failed: Sequence[HistoryMatch], settings: VerdictSettings
) -> _RingBelief:
    """Combine the rings, from the widest to the narrowest that has attempts."""
    rate = Beta(settings.hold * settings.unknown, settings.hold * (1 - settings.unknown))
    for ring in (SIMILAR, SAME, VERY_SAME):
        own = [attempt for attempt in attempts if attempt.ring == ring]
        if own:
            broke = sum(attempt.weight * (1 - attempt.quality) for attempt in own)
            worked = sum(attempt.weight * attempt.quality for attempt in own)
            rate = Beta(settings.hold * rate.mean + broke, settings.hold * (1 - rate.mean) + worked)
    here = [attempt for attempt in attempts if attempt.ring != SIMILAR] or attempts
    last = min(attempts, key=lambda attempt: (attempt.ring, -attempt.at), default=None)
    nearest = max((match.similarity for match in failed), default=0.0)
    failures = sum(1 for attempt in here if attempt.quality < GOOD)
    very_same = [attempt for attempt in attempts if attempt.ring == VERY_SAME]
    only_failed = bool(very_same) and all(attempt.quality < GOOD for attempt in very_same)
    fresh = sum(attempt.weight for attempt in very_same) >= settings.warn
    return _RingBelief(rate, failures, last is not None and last.quality >= GOOD, only_failed and fresh, nearest)


def _decide(belief: _RingBelief, sure: float, failures: int, settings: VerdictSettings) -> Decision:
    if belief.rate.mean < settings.warn:
        return "warn" if belief.only_failed else "allow"
    often = failures >= settings.repeated and belief.nearest >= settings.near
    return "block" if sure >= settings.block and often and not belief.succeeded_last else "warn"


class _SituationRecord(NamedTuple):
    """An action's outcomes in a situation, the posterior of its rate there, and the last change of that rate."""

    belief: Beta
    outcomes: Sequence[SituationOutcome]
    ids: Sequence[str]
    """Ids of the outcomes."""
    change: RateChange | None

    def failures(self) -> int:
        """Return the number of failures."""
        return sum(one.quality < GOOD for one in self.outcomes)


def _in_situation(parsed: ParsedAction, matches: Sequence[HistoryMatch], now: datetime) -> _SituationRecord | None:
    """Return the record of an action in this situation; with other values only if it has no attempts with these.

    `None` if it was not tried there.
    """
    near = [one for one in matches if one.action == 1 and one.context >= SAME_SITUATION and one.account.context_text]
    episodes = [(one, match.context == 1, match.account) for match in near for one in match.episodes]
    own = [each for each in episodes if each[0].exact == parsed.exact] or episodes
    known = sorted(
        (one.at, one.id, one.quality, here, circumstances(account.context.features)) for one, here, account in own
    )
    if not known:
        return None
    known = known[-LOOKED_AT:]
    outcomes = [SituationOutcome(from_micros(at), quality, here, around) for at, _, quality, here, around in known]
    belief, change = rate_in_situation(outcomes, now)
    return _SituationRecord(belief, outcomes, [id for _, id, *_ in known], change)


def _reconcile(decision: Decision, belief: Beta | None, failures: int, settings: VerdictSettings) -> Decision:
    """Adjust a decision that contradicts the belief about this situation."""
    if belief is None:
        return decision
    if decision == "block" and belief.below(GOOD) < settings.block:
        return "warn"
    mostly_fails = belief.mean < GOOD and belief.below(GOOD) >= settings.surely and failures >= settings.repeated
    return "warn" if decision == "allow" and mostly_fails else decision


def _is_trial_due(failed: Sequence[HistoryMatch], settings: VerdictSettings) -> bool:
    """Return whether the nearest failed action was refused so often that only another try can tell."""
    if not failed or not settings.refusals:
        return False
    newest = sorted(failed[0].episodes, key=lambda one: -one.at)
    times = next((number for number, one in enumerate(newest) if one.quality >= GOOD), len(newest))
    return failed[0].account.refused >= settings.refusals * min(settings.patience, max(times, 1))


def _patterns(known: PatternRecognizer, attempts: Sequence[_WeighedAttempt]) -> list[Pattern]:
    """Return the patterns of the failures among the evidence, by weight."""
    weights = dict[str, float]()
    for attempt in attempts:
        if attempt.pattern is not None and attempt.quality < GOOD:
            weights[attempt.pattern] = weights.get(attempt.pattern, 0.0) + attempt.weight
    return [known.index.patterns[id] for id in sorted(weights, key=lambda id: (-weights[id], id))]


def _apply_check_status(
    decision: Decision,
    status: CheckStatus,
    attempts: Sequence[_WeighedAttempt],
    failed: Sequence[HistoryMatch],
    settings: VerdictSettings,
) -> Decision:
    """Apply the status of the main failure's check to a decision.

    A retired check is silent, a loosened one only warns of what failed with this very action.
    """
    if decision == "allow" or status == "active":
        return decision
    here = [attempt for attempt in attempts if attempt.ring != SIMILAR]
    if status == "retired" or not here:
        return "allow"
    return "warn" if _combine_rings(here, failed, settings).rate.mean >= 0.5 else "allow"


def _status(known: PatternRecognizer, pattern: Pattern) -> CheckStatus:
    """Return the status of a pattern's most active check; "active" if it has none."""
    found = {known.checks[id].status for id in pattern.checks}
    order: tuple[CheckStatus, ...] = ("active", "loosened", "retired")
    return next((status for status in order if status in found), "active")


def _firing_checks(
    known: PatternRecognizer, patterns: Sequence[Pattern], rules: Sequence[CheckState], decision: Decision
) -> list[str]:
    """Return the ids of the checks that fire, each once."""
    own = [id for pattern in patterns[:SHOWN] for id in pattern.checks] if decision != "allow" else []
    active = [id for id in own if known.checks[id].status != "retired" and not known.checks[id].action]
    return list(dict.fromkeys([*active, *(check_state.id for check_state in rules if check_state.status != "retired")]))


def _failures(
    known: PatternRecognizer, matches: Sequence[HistoryMatch], named: Sequence[Pattern]
) -> tuple[KnownFailure, ...]:
    together = dict[tuple[str, float, float], list[HistoryMatch]]()
    for match in matches:
        apart = match.account.context.key if match.context != SAME_SITUATION else ""
        together.setdefault((apart, match.action, match.context), []).append(match)
    failed = [
        several for several in together.values() if any(one.quality < GOOD for each in several for one in each.episodes)
    ]
    found = [_known_failure(known, several) for several in failed[:SHOWN]]
    for pattern in named:
        newest = sorted(pattern.times.items(), key=lambda one: (-one[1], one[0]))
        found.append(
            KnownFailure(
                pattern_id=pattern.id,
                name=pattern.name,
                error_signature=pattern.signature,
                example=pattern.example,
                action="",
                context=next(iter(pattern.contexts), ""),
                similarity=NAMED_SIMILARITY,
                failures=len(newest),
                successes=0,
                last_seen=from_micros(newest[0][1]),
                episodes=tuple(id for id, _ in newest[:EPISODES]),
            )
        )
    return tuple(found[:SHOWN])


def _known_failure(known: PatternRecognizer, matches: Sequence[HistoryMatch]) -> KnownFailure:
    """Return the failures of one context, or of one situation in several wordings."""
    first = matches[0]
    episodes = [one for match in matches for one in match.episodes]
    failed = sorted((one for one in episodes if one.quality < GOOD), key=lambda one: -one.at)
    pattern = next((known.index.patterns[one.pattern] for one in failed if one.pattern), None)
    return KnownFailure(
        pattern_id=pattern.id if pattern else "",
        name=pattern.name if pattern else "",
        error_signature=pattern.signature if pattern else "",
        example=pattern.example if pattern else "",
        action=first.account.action_text,
        context=first.account.context_text,
        similarity=first.similarity,
        failures=len(failed),
        successes=len(episodes) - len(failed),
        last_seen=from_micros(failed[0].at),
        episodes=tuple(one.id for one in failed[:EPISODES]),
    )


def _instead(
    known: PatternRecognizer,
    patterns: Sequence[Pattern],
    parsed: ParsedAction,
    where: ParsedContext,
    failed: Sequence[HistoryMatch],
    situation: SituationView | None,
    now: datetime,
) -> tuple[Remedy, ...]:
    """Return solutions that mostly helped, and other actions that mostly succeed here; best first."""
    found = dict[tuple[str, str], Remedy]()
    for pattern in patterns[:SHOWN]:
        for one in pattern.ranked_solutions()[:SHOWN]:
            if one.rate > GOOD:
                found.setdefault(("solution", one.text), _solution(one.text, one.rate, one.tried, one.episodes))
    others = {
        match.account.action.key: match
        for match in reversed(known.history.other_actions(parsed, where, failed[:SHOWN]))
    }
    for match in [*reversed(others.values())][:COMPARED]:
        account = match.account
        here = _in_situation(account.action, known.history.matches(account.action, where, situation), now)
        near = here or _in_situation(account.action, [match._replace(action=1.0, context=SAME_SITUATION)], now)
        if near is not None and (good := _remedy_action(account, near)) is not None:
            found["action", account.action.key] = good
    ranked = sorted(found.values(), key=lambda one: (-one.success_rate, -one.attempts, one.kind, one.text))
    return tuple(ranked[:SHOWN])


def _solution(text: str, rate: float, tried: int, episodes: Sequence[str]) -> Remedy:
    newest = tuple(reversed(episodes[-EPISODES:]))
    return Remedy(kind="solution", text=text, success_rate=rate, attempts=tried, episodes=newest)


def _remedy_action(account: ActionAccount, here: _SituationRecord) -> Remedy | None:
    """Return an action as a remedy, if it is believed to mostly succeed."""
    newest = reversed([*zip(here.ids, here.outcomes, strict=True)])
    good = [id for id, one in newest if one.quality >= GOOD]
    if here.belief.mean <= GOOD or not good:
        return None
    return Remedy(
        kind="action",
        text=account.action_text,
        success_rate=here.belief.mean,
        attempts=len(here.outcomes),
        episodes=tuple(good[:EPISODES]),
    )


def _reason(
    decision: Decision,
    matches: Sequence[HistoryMatch],
    failed: Sequence[HistoryMatch],
    named: Sequence[Pattern],
    rules: Sequence[CheckState],
    here: _SituationRecord | None,
) -> str:
    if decision == "allow":
        return "it failed before, but what is known does not speak against it now"
    if failed:
        first = failed[0]
        where = "in this context" if first.context == 1 else "in a similar context"
        if first.context == SAME_SITUATION:
            where = "in this situation"
        told = [one for one in matches if (one.action, one.context) == (first.action, first.context)]
        if here is not None and here.change is not None and here.change.after < GOOD:
            return f"it {here.change.describe()}"
        if here is not None and not all(one.here for one in here.outcomes):
            return f"it failed {_times([one.quality for one in here.outcomes])} in this situation"
        known = [one for match in told for one in match.episodes]
        what = "it" if first.action == 1 else "a similar action"
        last = "the last " if any(one.account.tried > len(one.account.episodes) for one in told) else ""
        return f"{what} failed {_times([one.quality for one in sorted(known, key=lambda one: one.at)], last)} {where}"
    if named:
        return f"a failure that names it was seen {len(named[0].times)} times"
    return f"a check asks to verify first: {rules[0].verify or rules[0].name or rules[0].action}"


def _times(qualities: Sequence[float], last: str = "") -> str:
    """Describe how many of some outcomes, oldest first, were failures, and whether these were the latest."""
    failed = sum(quality < GOOD for quality in qualities)
    if 1 < failed < len(qualities) and all(quality < GOOD for quality in qualities[-failed:]):
        return f"the last {failed} of {last}{len(qualities)} times"
    return f"{failed} of {last}{len(qualities)} times"
