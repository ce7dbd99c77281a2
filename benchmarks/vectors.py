"""Compare nearest-neighbour searches in this process: bit codes with exact scores, a full scan, and HNSW.

python benchmarks/vectors.py [--sizes 10000,100000] [--queries 200]

Vectors are generated around topics, with 384 dimensions of which few are strong, as in real embeddings. HNSW is
measured if `usearch` is installed. All ways answer every query in turn, so that other load affects all alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from engram.ports import Matrix, Scope, Vector, VectorSpace, VectorStore
from engram.stores.vectors.exact import ExactVectors
from engram.stores.vectors.local import LocalVectors

SHELF = VectorSpace(Scope("bench"), "long-term", "made-up")
DIM, TOPICS, K = 384, 500, 10
Search = Callable[[Vector], list[str]]


def vectors(count: int, seed: int) -> Matrix:
    chance = np.random.default_rng(seed)
    strength = 1 / np.arange(1, DIM + 1) ** 0.35
    topics = np.random.default_rng(0).normal(size=(TOPICS, DIM)) * strength
    rows = topics[chance.integers(0, TOPICS, count)] + 0.9 * chance.normal(size=(count, DIM)) * strength
    rows += 0.6 * strength  # real embeddings are not spread around the origin
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def hnsw(matrix: Matrix) -> Search | None:
    try:
        from usearch.index import Index
    except ImportError:
        return None
    index = Index(ndim=DIM, metric="ip", dtype="f16", connectivity=16, expansion_add=128, expansion_search=128)
    index.add(np.arange(len(matrix)), matrix)
    return lambda vector: [str(key) for key in index.search(vector, K).keys]


def names(store: VectorStore, vector: Vector) -> list[str]:
    return [match.id for match in store.search(SHELF, vector, K)]


def measure(size: int, queries: int) -> None:
    matrix, asked = vectors(size, 1), vectors(queries, 2)
    ids = [str(n) for n in range(size)]
    ways: dict[str, tuple[float, Search]] = {}
    for name, store in (("every vector", ExactVectors()), ("bit codes", LocalVectors(many=0))):
        start = time.perf_counter()
        store.add(SHELF, ids, matrix)
        store.search(SHELF, asked[0], K)  # the first search makes the codes
        ways[name] = (time.perf_counter() - start, partial(names, store))
    start = time.perf_counter()
    if graph := hnsw(matrix):
        ways["HNSW (usearch, f16)"] = (time.perf_counter() - start, graph)
    times: dict[str, list[float]] = {name: [] for name in ways}
    right: dict[str, int] = dict.fromkeys(ways, 0)
    for vector in asked:
        found = {}
        for name, (_, search) in ways.items():
            start = time.perf_counter()
            found[name] = set(search(vector))
            times[name].append(1000 * (time.perf_counter() - start))
        for name in ways:
            right[name] += len(found[name] & found["every vector"])
    base = float(np.median(times["every vector"]))
    for name, (built, _) in ways.items():
        p50, p99 = np.percentile(times[name], [50, 99])
        share = right[name] / (K * queries)
        print(f"{size:>9,}  {name:22}{built:9.1f} s{p50:9.2f}{p99:9.2f}{p50 / base:8.2f}{share:10.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--queries", type=int, default=200)
    chosen = parser.parse_args()
    print(f"{'vectors':>9}  {'way':22}{'ready in':>11}{'p50 ms':>9}{'p99 ms':>9}{'× all':>8}{'recall@10':>10}")
    for size in chosen.sizes.split(","):
        measure(int(size), chosen.queries)


if __name__ == "__main__":
    main()
