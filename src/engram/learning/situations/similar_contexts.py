"""Group episodes by situation, and those without a situation by the words their contexts share."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import re2

from engram.learning.decisions.belief import DecisionEpisode
from engram.text.terms import MAX_QUERY_TERMS, STOP_WORDS, normal_form, query_terms

SIMILAR = 0.5
"""Share of common words above which two contexts are of one kind."""
_INSTANCE = 0.25  # weight of a word with a digit: it names an instance rather than a kind
_WORD = re2.compile(r"[\p{L}\p{N}]+")
WORD = "word="


@dataclass(frozen=True, slots=True)
class ContextGroup:
    """One kind of situation: its first context, and all its episodes, oldest first."""

    signature: str
    episodes: tuple[DecisionEpisode, ...]
    title: str = ""
    expected: Mapping[str, float] = field(default_factory=dict)
    """By action, in normal form: the rate expected from all other situations."""

    @property
    def display_name(self) -> str:
        """The name shown to people: its title, else its signature."""
        return self.title or self.signature


def distinct_episodes(episodes: Iterable[DecisionEpisode]) -> list[DecisionEpisode]:
    """Return every episode once, oldest first; of two copies the better trusted one."""
    known: dict[str, DecisionEpisode] = {}
    for episode in episodes:
        other = known.get(episode.id)
        if other is None or _rank(episode) > _rank(other):
            known[episode.id] = episode
    return sorted(known.values(), key=lambda episode: (episode.at, episode.id))


def descriptive_features(context: str, features: frozenset[str]) -> frozenset[str]:
    """Return the features of a context, and `word=…` for each of its significant words."""
    words = dict.fromkeys(word for word in _WORD.findall(normal_form(context)) if word not in STOP_WORDS)
    return features | {WORD + word for word in list(words)[:MAX_QUERY_TERMS]}


def group_episodes(
    episodes: Iterable[DecisionEpisode], titles: Mapping[str, str] = MappingProxyType({})
) -> list[ContextGroup]:
    """Group episodes by situation, in the order the situations were first met.

    Situations of several agents are one if they share a context. A context without a situation joins the most similar
    one before it. `titles` are names of situations, by id. A group's signature is its first context, so it stays the
    same.
    """
    members: dict[str, list[DecisionEpisode]] = defaultdict(list)
    for episode in distinct_episodes(episodes):
        members[normal_form(episode.context)].append(episode)
    unplaced = [context for context, own in members.items() if not any(one.situation for one in own)]
    first = {context: context for context in members} | _signatures(unplaced)
    order = {context: number for number, context in enumerate(members)}
    met = dict[tuple[str, str], str]()
    for context, own in members.items():
        for one in own:
            if one.situation:
                _join(first, order, context, met.setdefault((one.agent, one.situation), context))
    groups: dict[str, list[DecisionEpisode]] = defaultdict(list)
    for context, own in members.items():
        groups[_root(first, context)] += own
    return [
        ContextGroup(signature, tuple(distinct_episodes(gathered)), _title(gathered, titles))
        for signature, gathered in groups.items()
    ]


def _root(first: dict[str, str], context: str) -> str:
    while first[context] != context:
        first[context] = context = first[first[context]]
    return context


def _join(first: dict[str, str], order: Mapping[str, int], one: str, other: str) -> None:
    """Merge the groups of two contexts; the context that was met first represents it."""
    earlier, later = sorted((_root(first, one), _root(first, other)), key=order.__getitem__)
    first[later] = earlier


def _title(episodes: Iterable[DecisionEpisode], titles: Mapping[str, str]) -> str:
    return next((titles[one.situation] for one in episodes if one.situation in titles), "")


def _rank(episode: DecisionEpisode) -> tuple[float, str, str, str, float, float]:
    return episode.trust, episode.agent, episode.action, episode.context, episode.quality, episode.at.timestamp()


def _signatures(contexts: Sequence[str]) -> dict[str, str]:
    """Return, for each context in the order they were met, the first one of its kind."""
    words = [query_terms(context) for context in contexts]
    weight = {word: _INSTANCE if any(map(str.isdigit, word)) else 1.0 for several in words for word in several}
    known: list[str] = []
    totals = np.zeros(len(contexts))
    having: dict[str, array[int]] = defaultdict(lambda: array("q"))  # the kinds that have a word
    found: dict[str, str] = {}
    for context, own in zip(contexts, words, strict=True):
        total = sum(weight[word] for word in own)
        common = _common([(having[word], weight[word]) for word in own if word in having], len(known))
        similar = common / np.maximum(total + totals[: len(known)] - common, _INSTANCE)
        best = int(similar.argmax()) if known else -1
        if best >= 0 and similar[best] >= SIMILAR:
            found[context] = known[best]
            continue
        found[context] = context
        totals[len(known)] = total
        for word in own:
            having[word].append(len(known))
        known.append(context)
    return found


def _common(having: Sequence[tuple[array[int], float]], kinds: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return, for every kind, the weight of the words it shares."""
    if not having:
        return np.zeros(kinds)
    which = np.concatenate([np.frombuffer(several, dtype=np.int64) for several, _ in having])
    weights = np.repeat([weight for _, weight in having], [len(several) for several, _ in having])
    return np.bincount(which, weights, minlength=kinds).astype(np.float64)
