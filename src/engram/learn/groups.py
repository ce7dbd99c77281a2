"""Which episodes happened in similar situations, told by the words of their contexts alone."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import re2

from engram.learn.decisions import Episode
from engram.words import MAX_QUERY_TERMS, STOP_WORDS, normal_form, query_terms

SIMILAR = 0.5
"""The share of their words two contexts must have in common to be one kind of situation."""
_INSTANCE = 0.25  # what a word with a digit in it counts: it names one case rather than a kind
_WORD = re2.compile(r"[\p{L}\p{N}]+")
WORD = "word="


@dataclass(frozen=True, slots=True)
class Group:
    """One kind of situation: the context it was first met in, and everything that happened in it, oldest first."""

    signature: str
    episodes: tuple[Episode, ...]


def distinct(episodes: Iterable[Episode]) -> list[Episode]:
    """Every episode once, oldest first, whatever order they came in; of two copies the better trusted one."""
    known: dict[str, Episode] = {}
    for episode in episodes:
        other = known.get(episode.id)
        if other is None or _rank(episode) > _rank(other):
            known[episode.id] = episode
    return sorted(known.values(), key=lambda episode: (episode.at, episode.id))


def described(context: str, features: frozenset[str]) -> frozenset[str]:
    """What can be said about a situation: its features, and `word=…` for each telling word of its context."""
    words = dict.fromkeys(word for word in _WORD.findall(normal_form(context)) if word not in STOP_WORDS)
    return features | {WORD + word for word in list(words)[:MAX_QUERY_TERMS]}


def grouped(episodes: Iterable[Episode]) -> list[Group]:
    """Episodes in similar contexts, each in one group; the kinds of situation in the order they were first met.

    A context joins the most similar of the situations known when it was first met, so what happens later
    never moves an earlier episode to another group, and a group keeps its signature.
    """
    members: dict[str, list[Episode]] = defaultdict(list)
    for episode in distinct(episodes):
        members[normal_form(episode.context)].append(episode)
    groups: dict[str, list[Episode]] = defaultdict(list)
    for context, signature in _signatures(list(members)).items():
        groups[signature] += members[context]
    return [Group(signature, tuple(distinct(gathered))) for signature, gathered in groups.items()]


def _rank(episode: Episode) -> tuple[float, str, str, str, float, float]:
    return episode.trust, episode.agent, episode.action, episode.context, episode.quality, episode.at.timestamp()


def _signatures(contexts: Sequence[str]) -> dict[str, str]:
    """For each context, in the order they were met, the first one of its kind."""
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
    """For every kind, what the words it shares weigh."""
    if not having:
        return np.zeros(kinds)
    which = np.concatenate([np.frombuffer(several, dtype=np.int64) for several, _ in having])
    weights = np.repeat([weight for _, weight in having], [len(several) for several, _ in having])
    return np.bincount(which, weights, minlength=kinds).astype(np.float64)
