"""Facts as a graph: concepts are joined by what is said of them. Everything here is derived, and changes nothing."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engram.memories.facts.names import concept_key, is_value
from engram.model.fact import ConceptPath, Edge, Fact

DAMPING = 0.85
"""How much of the weight goes on to the neighbours at each step; the rest goes back to where it came from."""
STEPS = 100
ENOUGH = 1e-9
MOST_VISITS = 50_000
LONGEST_NAME = 6
"""Words of a name that is still looked for in a text."""

Direction = Literal["out", "in", "both"]


@dataclass(frozen=True, slots=True)
class Line:
    """One edge, between the keys of two concepts."""

    start: str
    end: str
    edge: Edge


@dataclass(frozen=True, slots=True)
class Graph:
    """Concepts by key, and the edges of each; what the functions of this module take."""

    spellings: Mapping[str, tuple[str, ...]]
    """How each concept is written, the most frequent first."""
    lines: tuple[Line, ...]
    beside: Mapping[str, tuple[Line, ...]]
    """The lines that begin or end at a concept."""

    def name(self, key: str) -> str:
        """How a concept is written most often."""
        return self.spellings[key][0]


def graph(facts: Iterable[Fact]) -> Graph:
    """The graph of some facts; denials join nothing, and are left out."""
    written = defaultdict[str, Counter[str]](Counter)
    joined = list[tuple[str, str, Fact]]()
    for fact in facts:
        if not fact.negated:
            start, end = concept_key(fact.subject), concept_key(fact.object)
            written[start][_bare(fact.subject)] += 1
            written[end][_bare(fact.object)] += 1
            joined.append((start, end, fact))
    spellings = {key: tuple(name for name, _ in names.most_common()) for key, names in written.items()}
    lines = tuple(Line(start, end, _edge(fact, spellings, start, end)) for start, end, fact in joined)
    beside = defaultdict[str, list[Line]](list)
    for line in lines:
        beside[line.start].append(line)
        if line.end != line.start:
            beside[line.end].append(line)
    return Graph(spellings, lines, {key: tuple(own) for key, own in beside.items()})


def edges(graph: Graph) -> list[Edge]:
    """All edges, in the order of the facts."""
    return [line.edge for line in graph.lines]


def neighbours(graph: Graph, name: str, relation: str | None = None, direction: Direction = "both") -> list[str]:
    """What is joined to a concept directly, each once, in the order of the facts; nothing, if it is not known."""
    key = concept_key(name)
    found = dict[str, None]()
    for line in graph.beside.get(key, ()):
        points = "out" if line.start == key else "in"
        if direction in {"both", points} and relation in {None, line.edge.predicate}:
            found[line.end if points == "out" else line.start] = None
    return [graph.name(other) for other in found if other != key]


def paths(graph: Graph, start: str, end: str, *, most: int = 3, longest: int = 5) -> list[ConceptPath]:
    """Ways between two concepts, the shortest first, at most so many and so long; none passes a concept twice.

    Numbers and other mere values lead nowhere: two servers with the same port have nothing to do with each other.
    """
    first, last = concept_key(start), concept_key(end)
    if first not in graph.beside or last not in graph.beside or first == last:
        return []
    away = _distances(graph, last, longest)
    found = list[ConceptPath]()
    waiting: deque[tuple[tuple[str, ...], tuple[Line, ...]]] = deque([((first,), ())])
    visits = 0
    while waiting and len(found) < most and visits < MOST_VISITS:
        keys, lines = waiting.popleft()
        visits += 1
        if keys[-1] == last:
            found.append(ConceptPath(names=tuple(map(graph.name, keys)), edges=tuple(line.edge for line in lines)))
            continue
        for other, line in _steps(graph, keys[-1], last):
            if other not in keys and len(lines) + 1 + away.get(other, longest) <= longest:
                waiting.append(((*keys, other), (*lines, line)))
    return found


def subgraph(graph: Graph, around: str | Iterable[str], depth: int = 1) -> list[Edge]:
    """The edges between concepts that are at most so many steps away from some others."""
    names = [around] if isinstance(around, str) else list(around)
    near = set[str]()
    for name in names:
        near |= _distances(graph, concept_key(name), depth).keys()
    return [line.edge for line in graph.lines if line.start in near and line.end in near]


def related(graph: Graph, names: Sequence[str], k: int = 5) -> list[tuple[str, float]]:
    """The concepts nearest to some others, with their weight: personalised PageRank, whichever way edges point.

    Neither the given ones nor mere values are among them. The same graph gives the same answer.
    """
    keys = sorted(key for key in graph.beside if not is_value(key))
    place = {key: at for at, key in enumerate(keys)}
    seeds = [place[key] for key in dict.fromkeys(map(concept_key, names)) if key in place]
    ends = [(place[line.start], place[line.end]) for line in graph.lines if line.start in place and line.end in place]
    if not seeds or not ends:
        return []
    pairs = np.array(ends, dtype=np.int64)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    origin, target = np.concatenate([pairs, pairs[:, ::-1]]).T
    degree = np.maximum(np.bincount(origin, minlength=len(keys)), 1)
    home: NDArray[np.float64] = np.zeros(len(keys))
    home[seeds] = 1 / len(seeds)
    weight: NDArray[np.float64] = home
    for _ in range(STEPS):
        spread = np.bincount(target, weights=(weight / degree)[origin], minlength=len(keys))
        moved: NDArray[np.float64] = DAMPING * np.asarray(spread, dtype=np.float64)
        moved += (1 - moved.sum()) * home
        change = float(np.abs(moved - weight).sum())
        weight = moved
        if change < ENOUGH:
            break
    best = sorted(
        (at for at in range(len(keys)) if at not in set(seeds) and weight[at] > 0), key=lambda at: -weight[at]
    )
    return [(graph.name(keys[at]), float(weight[at])) for at in best[:k]]


def mentioned(graph: Graph, text: str) -> list[str]:
    """The concepts that a text names, in order, the longest names first where they overlap."""
    words = [word.strip('.,;:!?"()[]') for word in text.split()]
    found, at = dict[str, None](), 0
    while at < len(words):
        length = min(LONGEST_NAME, len(words) - at)
        while length and not _known(graph, " ".join(words[at : at + length])):
            length -= 1
        if length:
            found[_known(graph, " ".join(words[at : at + length])) or ""] = None
        at += length or 1
    return [graph.name(key) for key in found]


def _known(graph: Graph, name: str) -> str | None:
    """The key of the concept that a name means, also with a possessive "'s"."""
    for spelled in (name, name.removesuffix("'s"), name.removesuffix("’s")):
        key = concept_key(spelled) if spelled.strip() else ""
        if key in graph.beside and not is_value(key):
            return key
    return None


def _distances(graph: Graph, start: str, depth: int) -> dict[str, int]:
    """How many steps away each concept is, up to a depth; mere values are reached, but not passed."""
    away = {start: 0} if start in graph.beside else {}
    waiting = deque(away)
    while waiting:
        key = waiting.popleft()
        if away[key] == depth or (is_value(key) and key != start):
            continue
        for line in graph.beside[key]:
            other = line.end if line.start == key else line.start
            if other not in away:
                away[other] = away[key] + 1
                waiting.append(other)
    return away


def _steps(graph: Graph, key: str, goal: str) -> list[tuple[str, Line]]:
    """The next concepts and, for each, the first of the lines that lead there."""
    found = dict[str, Line]()
    for line in graph.beside[key]:
        other = line.end if line.start == key else line.start
        if other == goal or not is_value(other):
            found.setdefault(other, line)
    return list(found.items())


def _bare(name: str) -> str:
    """A name as it is shown: without an article, if something is left."""
    first, _, rest = name.strip().partition(" ")
    return rest.strip() if rest.strip() and first.lower() in {"the", "a", "an", "our"} else name.strip()


def _edge(fact: Fact, spellings: Mapping[str, Sequence[str]], start: str, end: str) -> Edge:
    return Edge(subject=spellings[start][0], predicate=fact.predicate, object=spellings[end][0], fact=fact.id)
