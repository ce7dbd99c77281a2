"""Facts as a graph of concepts; pure functions on values."""

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
"""Share of the weight that moves on to the neighbours at each step; the rest returns to the start."""
STEPS = 100
TOLERANCE = 1e-9
MAX_VISITS = 50_000
MAX_NAME_WORDS = 6
"""Maximum words of a name that is searched for in a text."""

Direction = Literal["out", "in", "both"]


@dataclass(frozen=True, slots=True)
class KeyedEdge:
    """An edge with the keys of its two concepts."""

    start: str
    end: str
    edge: Edge


@dataclass(frozen=True, slots=True)
class Graph:
    """Concepts by key, with their edges."""

    spellings: Mapping[str, tuple[str, ...]]
    """The spellings of each concept, the most frequent first."""
    edges: tuple[KeyedEdge, ...]
    edges_of: Mapping[str, tuple[KeyedEdge, ...]]
    """The edges that begin or end at a concept."""

    def name(self, key: str) -> str:
        """Return the most frequent spelling of a concept."""
        return self.spellings[key][0]


def build_graph(facts: Iterable[Fact]) -> Graph:
    """Build the graph of some facts, without denials."""
    written = defaultdict[str, Counter[str]](Counter)
    joined = list[tuple[str, str, Fact]]()
    for fact in facts:
        if not fact.negated:
            start, end = concept_key(fact.subject), concept_key(fact.object)
            written[start][_display_name(fact.subject)] += 1
            written[end][_display_name(fact.object)] += 1
            joined.append((start, end, fact))
    spellings = {key: tuple(name for name, _ in names.most_common()) for key, names in written.items()}
    lines = tuple(KeyedEdge(start, end, _edge(fact, spellings, start, end)) for start, end, fact in joined)
    beside = defaultdict[str, list[KeyedEdge]](list)
    for line in lines:
        beside[line.start].append(line)
        if line.end != line.start:
            beside[line.end].append(line)
    return Graph(spellings, lines, {key: tuple(own) for key, own in beside.items()})


def edges(graph: Graph) -> list[Edge]:
    """Return all edges, in the order of the facts."""
    return [line.edge for line in graph.edges]


def neighbours(graph: Graph, name: str, relation: str | None = None, direction: Direction = "both") -> list[str]:
    """Return the distinct concepts next to a concept, in the order of the facts."""
    key = concept_key(name)
    found = dict[str, None]()
    for line in graph.edges_of.get(key, ()):
        points = "out" if line.start == key else "in"
        if direction in {"both", points} and relation in {None, line.edge.predicate}:
            found[line.end if points == "out" else line.start] = None
    return [graph.name(other) for other in found if other != key]


def paths(graph: Graph, start: str, end: str, *, most: int = 3, longest: int = 5) -> list[ConceptPath]:
    """Return simple paths between two concepts, the shortest first.

    Paths do not pass through plain values such as numbers: two servers with the same port are not related by it.
    """
    first, last = concept_key(start), concept_key(end)
    if first not in graph.edges_of or last not in graph.edges_of or first == last:
        return []
    away = _distances(graph, last, longest)
    found = list[ConceptPath]()
    waiting: deque[tuple[tuple[str, ...], tuple[KeyedEdge, ...]]] = deque([((first,), ())])
    visits = 0
    while waiting and len(found) < most and visits < MAX_VISITS:
        keys, lines = waiting.popleft()
        visits += 1
        if keys[-1] == last:
            found.append(ConceptPath(names=tuple(map(graph.name, keys)), edges=tuple(line.edge for line in lines)))
            continue
        for other, line in _next_concepts(graph, keys[-1], last):
            if other not in keys and len(lines) + 1 + away.get(other, longest) <= longest:
                waiting.append(((*keys, other), (*lines, line)))
    return found


def subgraph(graph: Graph, around: str | Iterable[str], depth: int = 1) -> list[Edge]:
    """Return the edges between concepts within `depth` steps of some others."""
    names = [around] if isinstance(around, str) else list(around)
    near = set[str]()
    for name in names:
        near |= _distances(graph, concept_key(name), depth).keys()
    return [line.edge for line in graph.edges if line.start in near and line.end in near]


def related(graph: Graph, names: Sequence[str], k: int = 5) -> list[tuple[str, float]]:
    """Return the concepts nearest to some others with their weight, by personalised PageRank on the undirected graph.

    Excludes the given concepts and plain values. Deterministic.
    """
    keys = sorted(key for key in graph.edges_of if not is_value(key))
    place = {key: at for at, key in enumerate(keys)}
    seeds = [place[key] for key in dict.fromkeys(map(concept_key, names)) if key in place]
    ends = [(place[line.start], place[line.end]) for line in graph.edges if line.start in place and line.end in place]
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
        if change < TOLERANCE:
            break
    best = sorted(
        (at for at in range(len(keys)) if at not in set(seeds) and weight[at] > 0), key=lambda at: -weight[at]
    )
    return [(graph.name(keys[at]), float(weight[at])) for at in best[:k]]


def find_mentions(graph: Graph, text: str) -> list[str]:
    """Return the concepts that a text mentions, in order; the longest name wins where they overlap."""
    words = [word.strip('.,;:!?"()[]') for word in text.split()]
    found, at = dict[str, None](), 0
    while at < len(words):
        length = min(MAX_NAME_WORDS, len(words) - at)
        while length and not _match_key(graph, " ".join(words[at : at + length])):
            length -= 1
        if length:
            found[_match_key(graph, " ".join(words[at : at + length])) or ""] = None
        at += length or 1
    return [graph.name(key) for key in found]


def _match_key(graph: Graph, name: str) -> str | None:
    """Return the key of the concept with a name, ignoring a possessive "'s"."""
    for spelled in (name, name.removesuffix("'s"), name.removesuffix("’s")):
        key = concept_key(spelled) if spelled.strip() else ""
        if key in graph.edges_of and not is_value(key):
            return key
    return None


def _distances(graph: Graph, start: str, depth: int) -> dict[str, int]:
    """Return the distance of each concept up to a depth; plain values are reached, but not passed."""
    away = {start: 0} if start in graph.edges_of else {}
    waiting = deque(away)
    while waiting:
        key = waiting.popleft()
        if away[key] == depth or (is_value(key) and key != start):
            continue
        for line in graph.edges_of[key]:
            other = line.end if line.start == key else line.start
            if other not in away:
                away[other] = away[key] + 1
                waiting.append(other)
    return away


def _next_concepts(graph: Graph, key: str, goal: str) -> list[tuple[str, KeyedEdge]]:
    """Return the next concepts, each with the first edge that leads to it."""
    found = dict[str, KeyedEdge]()
    for line in graph.edges_of[key]:
        other = line.end if line.start == key else line.start
        if other == goal or not is_value(other):
            found.setdefault(other, line)
    return list(found.items())


def _display_name(name: str) -> str:
    """Return a name without its article, unless nothing would be left."""
    first, _, rest = name.strip().partition(" ")
    return rest.strip() if rest.strip() and first.lower() in {"the", "a", "an", "our"} else name.strip()


def _edge(fact: Fact, spellings: Mapping[str, Sequence[str]], start: str, end: str) -> Edge:
    return Edge(subject=spellings[start][0], predicate=fact.predicate, object=spellings[end][0], fact=fact.id)
