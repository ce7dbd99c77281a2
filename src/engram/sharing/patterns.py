"""Patterns, templates and checks that others share with an agent, under the right `learn`.

Every read is logged as a use of the grant. A grant that was revoked or has expired gives access to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal, TypeVar

from engram.learning.patterns.pattern_lookup import find_one_name, pattern_names
from engram.learning.reuse import Attempt, own_record
from engram.learning.service import Learning
from engram.model import FailurePattern, PreventionCheck
from engram.model.grant import Right
from engram.model.shared import SharedCheck, SharedPattern
from engram.model.source import OwnRecord, PatternSource
from engram.model.success import DecisionTemplate, SuccessPattern
from engram.ports import Scope
from engram.sharing.lenders import Lender, Sharing, topic

P = TypeVar("P", FailurePattern, SuccessPattern, DecisionTemplate)
Type = Literal["failure", "success", "decision"]
TYPES: tuple[Type, ...] = ("failure", "success", "decision")
LISTED, APPLIED = "patterns", "apply"
"""The actions in the log of uses: patterns were listed, or one was applied."""


class SharedPatterns:
    """The patterns of others that an agent may use."""

    def __init__(self, scope: Scope, sharing: Sharing, learning: Learning) -> None:
        self._scope = scope
        self._sharing = sharing
        self._learning = learning

    def list(self, types: Iterable[str] = TYPES, *, owner: str | None = None, imports: bool = False) -> Patterns:
        """List the patterns that are shared with this agent or imported by it, each once.

        `owner` limits the list to one source, `imports` to imported files.
        """
        shown = self._find(frozenset(types), owner, imports)
        self._log(shown, LISTED)
        self._record_shown(shown)
        return [pattern for _, pattern in shown]

    def failures(self) -> Patterns:
        """List the failure patterns of others; those of one source are listed most recently seen first."""
        return self.list(("failure",))

    def find(self, name: str, owner: str | None = None, *, words: bool = False) -> Patterns:
        """Find the patterns with this name or id, and log each as applied.

        With `words`, if none has this name, find the one pattern that `name` describes. Raises `InvalidInput` if
        several match.
        """
        known = self._find(frozenset(TYPES), owner, False)
        shown = [(lender, each) for lender, each in known if _has_name(each, name)]
        if words and not shown:
            shown = _find_described(name, known)
        self._log(shown, APPLIED)
        self._record_shown(shown)
        return [pattern for _, pattern in shown]

    def checks(self, *, imports: bool = False) -> Checks:
        """List the prevention checks of others, by source and name."""
        shown = self._find(frozenset({"failure"}), None, imports)
        found = [
            (lender, each, SharedCheck(source=each.source, check=check))
            for lender, each in shown
            if isinstance(each.pattern, FailurePattern)
            for check in each.pattern.prevention_checks
        ]
        self._log([(lender, each) for lender, each, _ in found], LISTED)
        return sorted((one for _, _, one in found), key=lambda one: (one.source.name, one.check.name, one.check.id))

    def all_failures(self) -> Failures:
        """List the agent's own failure patterns, then those of others with their source."""
        return [*self._learning.failures(), *self._others(FailurePattern)]

    def all_successes(self) -> Successes:
        """List the agent's own success patterns, then those of others with their source."""
        return [*self._learning.synthesis().patterns, *self._others(SuccessPattern)]

    def all_templates(self) -> Templates:
        """List the agent's own decision templates, then those of others with their source."""
        return [*self._learning.synthesis().templates, *self._others(DecisionTemplate)]

    def all_checks(self) -> PreventionChecks:
        """List the agent's own prevention checks, then those of others with their source."""
        others = [each.check.model_copy(update={"source": each.source}) for each in self.checks()]
        return [*self._learning.checks(), *others]

    def failure(self, name: str) -> FailurePattern | None:
        """Get a failure pattern by its id or name: the agent's own or, if it has none, a shared one."""
        own = self._learning.failure(name)
        if own is not None:
            self._learning.show_patterns([own.pattern_id], lent=False)
            return own
        shown = [each for each in self._find(frozenset({"failure"}), None, False) if _has_name(each[1], name)][:1]
        self._log(shown, LISTED)
        return next(
            (each for each in _with_sources(shared for _, shared in shown) if isinstance(each, FailurePattern)), None
        )

    def _others(self, kind: type[P]) -> Iterable[P]:
        types = {FailurePattern: "failure", SuccessPattern: "success", DecisionTemplate: "decision"}
        return [each for each in _with_sources(self.list((types[kind],))) if isinstance(each, kind)]

    def owners(self) -> frozenset[str]:
        """Return the names of the sources that this agent may learn from now."""
        return frozenset(lender.name for lender in self._sharing.lenders(self._scope, Right.LEARN))

    def _find(self, types: frozenset[str], owner: str | None, imports: bool) -> Found:
        found: dict[tuple[str, str, str], tuple[Lender, SharedPattern]] = {}
        reshared = {lender.id for lender in self._sharing.lenders(self._scope, Right.RESHARE) if lender.grants}
        attempts = _OwnAttempts(self._learning)
        for lender in self._sharing.lenders(self._scope, Right.LEARN):
            if (owner is not None and lender.name != owner) or (imports and lender.grants):
                continue
            source = PatternSource(
                name=lender.name,
                kind="grant" if lender.grants else "import",
                id=lender.id,
                trust=self._sharing.trust(self._scope, lender.key, lender.since).mean,
                reshare=lender.id in reshared,
            )
            for each in _patterns_of(lender, types):
                key = (lender.key, type(each).__name__, each.pattern_id)
                if key not in found or _evidence(each) > _evidence(found[key][1].pattern):
                    found[key] = (lender, _shared_pattern(source, each, attempts.attempts))
        return list(found.values())

    def _record_shown(self, shown: Found) -> None:
        """Record that the agent was shown these patterns, and their sources."""
        sources: dict[str, list[str]] = {}
        for lender, each in shown:
            sources.setdefault(each.pattern.pattern_id, []).append(topic(lender.key))
        self._learning.show_patterns(sources, lent=True, sources=sources)

    def _log(self, shown: Found, action: str) -> None:
        by_lender: dict[str, list[SharedPattern]] = {}
        lenders = {lender.id: lender for lender, _ in shown}
        for lender, each in shown:
            by_lender.setdefault(lender.id, []).append(each)
        for id, patterns in by_lender.items():
            ids = dict.fromkeys(episode for each in patterns for episode in _episodes_of(each.pattern))
            self._sharing.log_use(self._scope, lenders[id], action, len(patterns), ids)


Patterns = list[SharedPattern]
Checks = list[SharedCheck]
Found = list[tuple[Lender, SharedPattern]]
Pattern = FailurePattern | SuccessPattern | DecisionTemplate
Failures = list[FailurePattern]
Successes = list[SuccessPattern]
Templates = list[DecisionTemplate]
PreventionChecks = list[PreventionCheck]


class _OwnAttempts:
    """The receiver's own attempts, read when the first pattern needs them."""

    def __init__(self, learning: Learning) -> None:
        self._learning = learning

    @cached_property
    def attempts(self) -> Sequence[Attempt]:
        return self._learning.attempts()


def _patterns_of(lender: Lender, types: frozenset[str]) -> Iterable[Pattern]:
    """Yield the patterns of a source, attributed to the name that its receiver knows it by."""
    named = {"agents": (lender.name,)}
    if "failure" in types:
        yield from (each.model_copy(update=named) for each in lender.learning.failures())
    if not types & {"success", "decision"}:
        return
    synthesis = lender.learning.synthesis()
    if "success" in types:
        yield from (each.model_copy(update=named) for each in synthesis.patterns)
    for template in synthesis.templates if "decision" in types else ():
        past = tuple(each.model_copy(update={"agent": lender.name}) for each in template.success_history)
        yield template.model_copy(update={"success_history": past})


def _with_sources(patterns: Iterable[SharedPattern]) -> Iterable[Pattern]:
    """Write the source and the receiver's own record into each pattern, and its source into each of its checks."""
    for each in patterns:
        changes: dict[str, object] = {"source": each.source, "own": each.own}
        if isinstance(each.pattern, FailurePattern):
            checks = each.pattern.prevention_checks
            changes["prevention_checks"] = tuple(one.model_copy(update={"source": each.source}) for one in checks)
        yield each.pattern.model_copy(update=changes)


def _shared_pattern(source: PatternSource, pattern: Pattern, own: Sequence[Attempt]) -> SharedPattern:
    kind: Type = "decision"
    if isinstance(pattern, FailurePattern):
        kind = "failure"
    elif isinstance(pattern, SuccessPattern):
        kind = "success"
    return SharedPattern(type=kind, source=source, pattern=pattern, own=_own_record(source, pattern, own))


def _own_record(source: PatternSource, pattern: Pattern, own: Sequence[Attempt]) -> OwnRecord | None:
    """Rate the action of a pattern by the receiver's own outcomes; `None` for a failure without a solution."""
    contexts: tuple[str, ...]
    if isinstance(pattern, FailurePattern):
        if not pattern.known_solutions:
            return None
        best = pattern.known_solutions[0]
        action, contexts, rate, tried = best.text, pattern.contexts, best.success_rate, best.tried
    elif isinstance(pattern, SuccessPattern):
        action, contexts = pattern.successful_approach, (pattern.context_signature,)
        rate, tried = pattern.success_rate, pattern.attempts
    else:
        branch = max(pattern.decision_tree, key=lambda each: each.success_rate)
        action, contexts = branch.action, (pattern.context_signature,)
        rate, tried = branch.success_rate, branch.attempts
    return own_record(own, pattern.pattern_id, action, contexts, rate, tried, source.trust)


def _find_described(words: str, known: Found) -> Found:
    """Find the patterns of the one name that the words describe; empty if there is none."""
    found = {one.id for one in find_one_name(words, pattern_names(each.pattern for _, each in known))}
    return [(lender, each) for lender, each in known if each.pattern.pattern_id in found]


def _evidence(pattern: Pattern) -> int:
    return pattern.occurrence_count if isinstance(pattern, FailurePattern) else pattern.attempts


def _episodes_of(pattern: Pattern) -> tuple[str, ...]:
    if isinstance(pattern, DecisionTemplate):
        return tuple(each.episode for each in pattern.success_history)
    return pattern.episodes


def _has_name(shared: SharedPattern, name: str) -> bool:
    pattern = shared.pattern
    return name == pattern.pattern_id or (not isinstance(pattern, DecisionTemplate) and name == pattern.name)
