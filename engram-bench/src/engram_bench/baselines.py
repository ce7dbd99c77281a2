"""Simpler search systems over the same turns: BM25, vectors, both by reciprocal rank fusion, and Chroma."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engram.clock import Sources
from engram.ports import Embedder, Matrix, Redactor
from engram.stores.vectors.remote import load
from engram.text.terms import index_terms, query_terms
from engram_bench.data import Turn
from engram_bench.rankings import LEVELS, Level

POOL = 100
"""Turns each list contributes to a fusion, and to the grouping by session."""

RRF = 60

Found = list[tuple[int, float]]
"""Indexes of turns with their scores, best first."""

Search = Callable[[str], Found]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A system's name, and a function that builds its search over some turns."""

    name: str
    over: Callable[[Sequence[Turn]], Search]
    levels: tuple[Level, ...] = LEVELS


def text_of(turn: Turn) -> str:
    """Return the text to index for a system without a field for the speaker."""
    return f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text


def bm25(turns: Sequence[Turn]) -> Search:
    """Okapi BM25 (k1 = 1.2, b = 0.75) over Engram's index terms; queries without stop words."""
    k1, b = 1.2, 0.75
    counts = [Counter(index_terms(text_of(turn))) for turn in turns]
    lengths = np.array([sum(count.values()) for count in counts], dtype=np.float64)
    norm = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9))
    postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, count in enumerate(counts):
        for term, often in count.items():
            postings[term].append((place, often))

    def search(query: str) -> Found:
        scores = np.zeros(len(turns))
        for term in query_terms(query):
            if not (found := postings.get(term)):
                continue
            places, often = np.array(found, dtype=np.intp).T
            rarity = math.log(1 + (len(turns) - len(found) + 0.5) / (len(found) + 0.5))
            scores[places] += rarity * often * (k1 + 1) / (often + norm[places])
        return [(place, score) for place, score in _best(scores) if score > 0]

    return search


def bm25_of_sessions(turns: Sequence[Turn]) -> Search:
    """BM25 over whole sessions; a session has the index of its first turn."""
    sessions: dict[str, list[Turn]] = {}
    first: list[int] = []
    for place, turn in enumerate(turns):
        if turn.session not in sessions:
            first.append(place)
        sessions.setdefault(turn.session, []).append(turn)
    whole = [replace(some[0], text="\n".join(map(text_of, some)), speaker=None) for some in sessions.values()]
    search = bm25(whole)
    return lambda query: [(first[place], score) for place, score in search(query)]


def by_vector(embedder: Embedder, redactor: Redactor) -> Callable[[Sequence[Turn]], Search]:
    """Exact cosine similarity of whole turns."""

    def over(turns: Sequence[Turn]) -> Search:
        matrix = _documents(embedder, redactor, turns)

        def search(query: str) -> Found:
            return _best(matrix @ embedder.embed([redactor.clean([query])[0].text], "query")[0])

        return search

    return over


def fused(*parts: Callable[[Sequence[Turn]], Search]) -> Callable[[Sequence[Turn]], Search]:
    """Reciprocal rank fusion of the first hundred of each: the sum of 1 / (60 + rank)."""

    def over(turns: Sequence[Turn]) -> Search:
        searches = [part(turns) for part in parts]

        def search(query: str) -> Found:
            scores: defaultdict[int, float] = defaultdict(float)
            for part in searches:
                for rank, (place, _) in enumerate(part(query), start=1):
                    scores[place] += 1 / (RRF + rank)
            return sorted(scores.items(), key=lambda found: (-found[1], found[0]))

        return search

    return over


def chroma(embedder: Embedder, redactor: Redactor) -> Callable[[Sequence[Turn]], Search]:
    """One Chroma collection with its default index over the raw turns. Raises `MissingExtra` without chromadb."""
    client = chroma_client()
    name = f"bench-{Sources().new_id()}"  # all clients in one process share their collections

    def over(turns: Sequence[Turn]) -> Search:
        if name in {collection.name for collection in client.list_collections()}:
            client.delete_collection(name)
        collection = client.create_collection(name, embedding_function=None)
        matrix = _documents(embedder, redactor, turns)
        for first in range(0, len(turns), 1000):
            places = range(first, min(first + 1000, len(turns)))
            collection.add(ids=[str(place) for place in places], embeddings=matrix[first : first + 1000])

        def search(query: str) -> Found:
            vector = embedder.embed([redactor.clean([query])[0].text], "query")[0]
            answer = collection.query(query_embeddings=[vector], n_results=min(POOL, len(turns)), include=["distances"])
            pairs = zip(answer["ids"][0], answer["distances"][0], strict=True)
            return [(int(id), -float(distance)) for id, distance in pairs]

        return search

    return over


def chroma_client(folder: str | None = None) -> Any:
    """Return Chroma in this process, in a folder or in memory, without telemetry. Raises `MissingExtra`."""
    chromadb = load("chromadb", "chroma")
    settings = load("chromadb.config", "chroma").Settings(_env_file=None, anonymized_telemetry=False)
    if folder is not None:
        return chromadb.PersistentClient(folder, settings=settings)
    return chromadb.EphemeralClient(settings=settings)


def _documents(embedder: Embedder, redactor: Redactor, turns: Sequence[Turn]) -> Matrix:
    return embedder.embed([cleaned.text for cleaned in redactor.clean([text_of(turn) for turn in turns])])


def _best(scores: np.ndarray[Any, np.dtype[np.floating[Any]]]) -> Found:
    order = np.argsort(-scores, kind="stable")[:POOL]
    return [(int(place), float(scores[place])) for place in order]
