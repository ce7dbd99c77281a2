"""Record how every action went in every context, and find the attempts that matter for a new action quickly."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from engram.learning.actions import parsing
from engram.learning.actions.parsing import (
    ParsedAction,
    ParsedContext,
    action_similarity,
    context_similarity,
    feature_agreement,
)
from engram.learning.situations.wordings import wording_key

KEPT = 32
"""Attempts kept per account, the newest; older ones hardly weigh anything."""
CANDIDATES = 64
"""Accounts compared with a query at most."""
VISITED = 1000
"""Index entries visited per query at most."""
REFUSAL_ACCOUNTS = 8
"""Accounts that are updated by a refusal, and by the trial that ends the refusals."""
SAME_SITUATION, SIMILAR_SITUATION = 0.9, 0.7
"""Similarity of a context of the same situation in other words, and of one that may be of the same situation."""
MOST_WORDINGS = 32
"""Contexts of the situation asked about, the newest, whose accounts are looked up."""
SIMILAR_ENOUGH = 0.62
"""The similarity above which an account is evidence about a query."""


class SituationView(NamedTuple):
    """The situation asked about: its newest wordings, and predicates that relate other contexts to it."""

    is_alike: Callable[[str], bool]
    """Return whether a known context belongs to the situation."""
    is_apart: Callable[[str], bool]
    """Return whether a wording certainly belongs to another situation, even if it differs only in numbers."""
    wordings: Sequence[str]
    nearness: float = SAME_SITUATION
    """Similarity of the situation's contexts to the one asked about."""


@dataclass(slots=True)
class ActionAttempt:
    """One attempt of an action: when (in microseconds), how well it went, and the failure pattern if it failed."""

    id: str
    at: int
    quality: float
    exact: str
    pattern: str | None = None
    wording: str = ""
    """The wording key of its context; contexts of one account can differ in numbers."""


@dataclass(slots=True)
class ActionAccount:
    """Everything known about one action in one context, values masked; the texts are those of the first attempt.

    `refused` sums how often the action was warned against or blocked since it last failed or was let through as a
    trial; `waited` keeps that sum while the trial is undecided.
    """

    number: int
    action_text: str
    context_text: str
    action: ParsedAction
    context: ParsedContext
    episodes: list[ActionAttempt] = field(default_factory=list)
    tried: int = 0
    went_well: float = 0.0
    refused: float = 0.0
    waited: float = 0.0


class HistoryMatch(NamedTuple):
    """An account that is evidence about a query: the similarity of both parts, and the attempts that count."""

    account: ActionAccount
    action: float
    context: float
    episodes: Sequence[ActionAttempt]

    @property
    def similarity(self) -> float:
        """The similarity of action and context together."""
        return self.action * self.context


class ActionHistory:
    """All accounts in the order they were created, with the indexes to find them."""

    def __init__(self) -> None:
        self.accounts: list[ActionAccount] = []
        self._by_key: dict[tuple[str, str], int] = {}
        self._by_head: dict[tuple[str, ...], dict[str, list[int]]] = {}
        self._by_place: dict[str, list[int]] = {}
        self._by_word: dict[str, list[int]] = {}
        self._by_wording: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        """By wording key of the context and stems of the action's head."""
        self._failed: set[tuple[str, ...]] = set()
        """Stems of the heads of actions that ever failed."""

    def get_or_create(
        self, action_text: str, context_text: str, action: ParsedAction, context: ParsedContext
    ) -> ActionAccount:
        """Return the account of an action in a context; create it if there is none."""
        number = self._by_key.get((action.key, context.key))
        if number is None:
            texts = action_text[: parsing.MOST_CHARACTERS], context_text[: parsing.MOST_CHARACTERS]
            account = ActionAccount(len(self.accounts), *texts, action, context)
            self._add_to_indexes(account)
            return account
        return self.accounts[number]

    def add(self, account: ActionAccount, episode: ActionAttempt) -> None:
        """Add an attempt; beyond `KEPT` the earliest is dropped."""
        account.tried += 1
        failed = episode.quality < 0.5
        if failed:
            self._failed.add(account.action.does)
        if failed or account.waited:
            for match in self.matches(account.action, account.context)[:REFUSAL_ACCOUNTS]:
                match.account.refused = 0.0 if failed else max(match.account.refused, match.account.waited)
                match.account.waited = 0.0
        account.went_well += episode.quality
        account.episodes.append(episode)
        if len(account.episodes) > KEPT:
            account.episodes.remove(min(account.episodes, key=lambda one: one.at))

    def count_refusal(self, action: ParsedAction, context: ParsedContext) -> None:
        """Record that an action was warned against or blocked."""
        for match in self.matches(action, context)[:REFUSAL_ACCOUNTS]:
            match.account.refused += match.similarity

    def start_trial(self, action: ParsedAction, context: ParsedContext) -> None:
        """Record that an action was let through as a trial; until it succeeds, the next one takes as many refusals."""
        for match in self.matches(action, context)[:REFUSAL_ACCOUNTS]:
            match.account.waited = max(match.account.waited, match.account.refused)
            match.account.refused = 0.0

    def correct_outcome(
        self, account: ActionAccount, id: str, quality: float, pattern: str | None, before: float
    ) -> None:
        """Replace the outcome of an attempt; `before` is its former quality."""
        account.went_well += quality - before
        if quality < 0.5:
            self._failed.add(account.action.does)
        for episode in account.episodes:
            if episode.id == id:
                episode.quality, episode.pattern = quality, pattern

    def matches(
        self, action: ParsedAction, context: ParsedContext, situation: SituationView | None = None
    ) -> list[HistoryMatch]:
        """Return the accounts that are evidence about an action in a context, nearest first.

        A sibling, such as `npm ci` for `npm install`, counts only while the action itself has no attempts. A context of
        the same situation is near, whatever its words.
        """
        found, alike = list[HistoryMatch](), dict[str, float]()
        for number in dict.fromkeys(self._candidates(action, context, situation)):
            account = self.accounts[number]
            likeness = alike.get(account.action.key)
            if likeness is None:
                likeness = alike[account.action.key] = action_similarity(account.action, action)
            if likeness < SIMILAR_ENOUGH:
                continue
            near, episodes = context_similarity(account.context, context), account.episodes
            if situation is not None:
                episodes = [one for one in episodes if not (one.wording and situation.is_apart(one.wording))]
                if near < situation.nearness and situation.is_alike(account.context_text):
                    near = situation.nearness * feature_agreement(account.context, context)
            match = HistoryMatch(account, likeness, near, episodes)
            if match.similarity >= SIMILAR_ENOUGH and (episodes or not account.episodes):
                found.append(match)
        if any(match.account.action.does == action.does for match in found):
            found = [match for match in found if match.account.action.does == action.does]
        return sorted(found, key=lambda match: (-match.similarity, -match.account.number))

    def failed_elsewhere(self, action: ParsedAction) -> bool:
        """Return whether such an action failed in any context."""
        return action.does in self._failed

    def other_actions(
        self, action: ParsedAction, context: ParsedContext, near: Sequence[HistoryMatch] = ()
    ) -> list[HistoryMatch]:
        """Return the accounts of other actions in this or a similar context, nearest first.

        The contexts of `near`, in which the action itself was taken, are as near as those matches say.
        """
        known = {context.key: 1.0}
        for match in near:
            known[match.account.context.key] = max(match.context, known.get(match.account.context.key, 0.0))
        numbers = [number for key in known for number in self._by_place.get(key, ())[-CANDIDATES:]]
        if len(numbers) < 2:
            numbers += self._with_rarest_words(self._by_word, context, CANDIDATES)
        found = []
        for number in dict.fromkeys(numbers):
            account = self.accounts[number]
            near_by = max(context_similarity(account.context, context), known.get(account.context.key, 0.0))
            if near_by >= SIMILAR_ENOUGH and account.action.key != action.key:
                found.append(HistoryMatch(account, 0.0, near_by, account.episodes))
        return sorted(found, key=lambda match: (-match.context, -match.account.number))

    def dump(self) -> list[Any]:
        """Return the accounts as JSON."""
        return [
            {
                "action": account.action_text,
                "context": account.context_text,
                "features": sorted(account.context.features),
                "episodes": [list(asdict(episode).values()) for episode in account.episodes],
                "tried": account.tried,
                "went_well": account.went_well,
                "refused": account.refused,
                "waited": account.waited,
            }
            for account in self.accounts
        ]

    @classmethod
    def load(cls, state: list[Any]) -> ActionHistory:
        """Restore from the output of `dump`."""
        ledger = cls()
        for one in state:
            action = parsing.parse_action(one["action"])
            context = parsing.context_of(parsing.parse_context(one["context"]).words, frozenset(one["features"]))
            account = ActionAccount(len(ledger.accounts), one["action"], one["context"], action, context)
            account.episodes = [ActionAttempt(*values) for values in one["episodes"]]
            account.tried, account.went_well = one["tried"], one["went_well"]
            account.refused, account.waited = one["refused"], one["waited"]
            ledger._add_to_indexes(account)
        return ledger

    def _add_to_indexes(self, account: ActionAccount) -> None:
        self.accounts.append(account)
        self._by_key[account.action.key, account.context.key] = account.number
        self._by_place.setdefault(account.context.key, []).append(account.number)
        heads = self._by_head.setdefault(account.action.does, {})
        heads.setdefault("", []).append(account.number)
        self._by_wording.setdefault((wording_key(account.context_text), account.action.does), []).append(account.number)
        if any(episode.quality < 0.5 for episode in account.episodes):
            self._failed.add(account.action.does)
        for word in (*account.context.words, *account.context.features):
            heads.setdefault(word, []).append(account.number)
            self._by_word.setdefault(word, []).append(account.number)

    def _candidates(
        self, action: ParsedAction, context: ParsedContext, situation: SituationView | None
    ) -> Iterator[int]:
        exact = self._by_key.get((action.key, context.key))
        if exact is not None:
            yield exact
        for does in (action.does, parsing.sibling_stems(action)):
            heads = self._by_head.get(does) if does else None
            if heads is not None:
                all = heads[""]
                few = len(all) <= CANDIDATES
                numbers = all if few else self._with_rarest_words(heads, context, CANDIDATES) or all[-CANDIDATES:]
                yield from (number for number in numbers if number != exact)
                for key in situation.wordings[:MOST_WORDINGS] if situation is not None and not few else ():
                    yield from self._by_wording.get((key, tuple(does or ())), ())[-REFUSAL_ACCOUNTS:]

    def _with_rarest_words(self, index: dict[str, list[int]], context: ParsedContext, limit: int) -> list[int]:
        """Return the accounts that share most words with a context: rarest words first, newest accounts first."""
        words = [word for word in (*context.words, *context.features) if word in index]
        shared, left = Counter[int](), VISITED
        for word in sorted(words, key=lambda word: (len(index[word]), word)):
            shared.update(index[word][-left:])
            left -= len(index[word])
            if left <= 0:
                break
        size = len(self.accounts)
        best = heapq.nlargest(limit, [times * size + number for number, times in shared.items()])
        return [one % size for one in best]
