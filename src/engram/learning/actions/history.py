"""How every action went in every context: the episodes that a check weighs, found again in little time."""

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
"""Episodes an account keeps, the newest; older ones are outweighed anyway."""
CANDIDATES = 64
"""Accounts that are compared with what is asked, at most."""
VISITED = 1000
"""Entries of the index that are looked at for them, at most."""
REFUSAL_ACCOUNTS = 8
"""Accounts that learn of a refusal, and of the try that ends them."""
SAME_SITUATION, SIMILAR_SITUATION = 0.9, 0.7
"""The nearness of a context of the same situation in other words, and of one of which that is not sure."""
MOST_WORDINGS = 32
"""Contexts of the situation asked about, the newest, of which accounts are looked up."""
SIMILAR_ENOUGH = 0.62
"""From this similarity on, an account says something about what is asked."""


class SituationView(NamedTuple):
    """The situation asked about: its newest wordings, and how other contexts and their wordings stand to it."""

    is_alike: Callable[[str], bool]
    """Tells whether a known context is of the situation."""
    is_apart: Callable[[str], bool]
    """Tells whether a wording is surely of another situation, though only its numbers may be others."""
    wordings: Sequence[str]
    nearness: float = SAME_SITUATION
    """The nearness of its contexts to the one asked about."""


@dataclass(slots=True)
class ActionAttempt:
    """One time an action was taken: when (in microseconds), how well it went, and the pattern of its failure."""

    id: str
    at: int
    quality: float
    exact: str
    pattern: str | None = None
    wording: str = ""
    """That of its context, which numbers may tell from others of the same account."""


@dataclass(slots=True)
class ActionAccount:
    """All that is known of one action in one context, values aside; the texts are those of the first time.

    `refused` is how often the action was warned off or blocked since it last failed or was let through to be tried, and
    `waited` how often it was before that try.
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
    """An account that says something about what is asked, how near both parts are, and the episodes that count."""

    account: ActionAccount
    action: float
    context: float
    episodes: Sequence[ActionAttempt]

    @property
    def similarity(self) -> float:
        """Of both together."""
        return self.action * self.context


class ActionHistory:
    """The accounts, in the order they were opened, and the indexes that find them."""

    def __init__(self) -> None:
        self.accounts: list[ActionAccount] = []
        self._by_key: dict[tuple[str, str], int] = {}
        self._by_head: dict[tuple[str, ...], dict[str, list[int]]] = {}
        self._by_place: dict[str, list[int]] = {}
        self._by_word: dict[str, list[int]] = {}
        self._by_wording: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        """By wording of the context and what the action does."""
        self._failed: set[tuple[str, ...]] = set()
        """What the actions do that ever failed."""

    def get_or_create(
        self, action_text: str, context_text: str, action: ParsedAction, context: ParsedContext
    ) -> ActionAccount:
        """The account of an action in a context, a new one if there is none."""
        number = self._by_key.get((action.key, context.key))
        if number is None:
            texts = action_text[: parsing.MOST_CHARACTERS], context_text[: parsing.MOST_CHARACTERS]
            account = ActionAccount(len(self.accounts), *texts, action, context)
            self._add_to_indexes(account)
            return account
        return self.accounts[number]

    def add(self, account: ActionAccount, episode: ActionAttempt) -> None:
        """Add an episode; beyond `KEPT` the earliest is dropped."""
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
        """Note that an action was warned off or blocked, with everything that is known of it."""
        for match in self.matches(action, context)[:REFUSAL_ACCOUNTS]:
            match.account.refused += match.similarity

    def start_trial(self, action: ParsedAction, context: ParsedContext) -> None:
        """Note that an action was let through to be tried: until it succeeds, another try takes as many refusals."""
        for match in self.matches(action, context)[:REFUSAL_ACCOUNTS]:
            match.account.waited = max(match.account.waited, match.account.refused)
            match.account.refused = 0.0

    def correct_outcome(
        self, account: ActionAccount, id: str, quality: float, pattern: str | None, before: float
    ) -> None:
        """Replace the outcome of an episode, which was `before`."""
        account.went_well += quality - before
        if quality < 0.5:
            self._failed.add(account.action.does)
        for episode in account.episodes:
            if episode.id == id:
                episode.quality, episode.pattern = quality, pattern

    def matches(
        self, action: ParsedAction, context: ParsedContext, situation: SituationView | None = None
    ) -> list[HistoryMatch]:
        """The accounts that say something about an action in a context, nearest first.

        A sibling, such as `npm ci` for `npm install`, says something only while the action was not tried itself. A
        context of the same situation is near, whatever its words.
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
        """Tell whether such an action failed in any context."""
        return action.does in self._failed

    def other_actions(
        self, action: ParsedAction, context: ParsedContext, near: Sequence[HistoryMatch] = ()
    ) -> list[HistoryMatch]:
        """The accounts of other actions in this or a similar context, nearest first.

        The contexts of `near`, in which the action itself was taken, are as near as those say.
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
        """The accounts as JSON."""
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
        """The inverse of `dump`."""
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
        """The accounts that share most words with a context, the rarest words first, the newest accounts first."""
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
