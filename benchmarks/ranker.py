"""Train the ranker that Engram ships, and measure it on data it has not seen.

pip install lightgbm
    python benchmarks/ranker.py --longmemeval FILE [--locomo FILE] [--write]

The shipped ranker is trained on LongMemEval (MIT licence) only. LoCoMo is used for measuring: its licence does not
allow more. `--write` replaces src/engram/recall/ranker.json. Figures are the share of the turns that answer a question
among the first k (R@k), or of the questions whose sessions are all (or any) among the first five.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram import wiring
from engram.ports import ReadsNeighbours, Scope
from engram.recall.features import MATCHES, NAMES, features
from engram.recall.rank import LEAVES, Weights, fuse, grown
from engram.recall.search import RecallRequest, compare, find
from engram.recall.understand import parse_query
from engram_bench.data import DataSet, Question, read_locomo, read_longmemeval
from engram_bench.retrieval import agents_of, turn_of
from engram_bench.retrieval import store as ingest

HOME = Path(__file__).parents[1] / "src" / "engram" / "retrieve" / "ranker.json"
ROUNDS, FOLDS = 100, 10
PARAMETERS = {
    "objective": "lambdarank",
    "learning_rate": 0.05,
    "num_leaves": LEAVES - 1,
    "min_data_in_leaf": 40,
    "lambda_l2": 5,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambdarank_truncation_level": 30,
    "monotone_constraints": [int(name in MATCHES) for name in NAMES],
    "seed": 7,
    "deterministic": True,
    "num_threads": 1,
    "verbose": -1,
}
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Example:
    """One question: its candidates, their features, and the group it is held out with."""

    question: Question
    group: str
    turns: Sequence[str]
    sessions: Sequence[str | None]
    rows: Numbers
    plain: Numbers

    @property
    def labels(self) -> NDArray[np.int64]:
        """1 for each candidate that answers the question."""
        return np.array([turn in self.question.turns for turn in self.turns], dtype=np.int64)


def examples(data: DataSet, folder: Path) -> list[Example]:
    """Store the data, and compute the candidates of each question as recall does."""
    made = []
    with wiring.open(folder / f"{data.name}.db", durable=False, vectors="") as brain:
        ingest(brain, data)
        store = brain.store
        assert isinstance(store, ReadsNeighbours)
        conversations, agents = {c.id: c for c in data.conversations}, agents_of(brain, data)
        for question in data.questions:
            scope = Scope(agents[question.conversation].name)
            now = question.asked_at or brain.sources.now()
            (clean,) = brain.redactor.clean([question.text])
            asked, wanted = parse_query(clean.text, now, store.speakers(scope)), RecallRequest(now)
            found = find(store, scope, asked, brain.near(asked.text), wanted)
            first = fuse([*found.words.values()], [*found.near.values()], Weights())
            seen = compare(store, scope, asked, found, first, wanted)
            if seen is None or not seen.candidate.any():
                continue
            measured = features(seen, asked)
            chosen = [g for g, own in zip(seen.glimpses, seen.candidate, strict=True) if own]
            memories = store.get(scope, [glimpse.id for glimpse in chosen])
            made.append(
                Example(
                    question,
                    question.conversation,
                    [turn_of(conversations[question.conversation], m).id for m in memories if m is not None],
                    [glimpse.session for glimpse in chosen],
                    np.stack([measured[name][seen.candidate] for name in NAMES], axis=1),
                    measured["sum"][seen.candidate],
                )
            )
    return made


def train(some: Sequence[Example]) -> Any:
    """Train LambdaMART on questions that have an answer among their candidates."""
    import lightgbm

    usable = [one for one in some if one.question.answerable and one.labels.any()]
    data = lightgbm.Dataset(
        np.concatenate([one.rows for one in usable]),
        np.concatenate([one.labels for one in usable]),
        group=[len(one.turns) for one in usable],
    )
    return lightgbm.train(PARAMETERS, data, ROUNDS)


def predicted(model: Any, some: Sequence[Example]) -> list[Numbers]:
    """Return the weighted sum, corrected by the model as recall does it."""
    share = Weights().learned
    return [one.plain + share * _standard(np.asarray(model.predict(one.rows))) for one in some]


def held_out(some: Sequence[Example], group: Callable[[Example], Any], others: Sequence[Example] = ()) -> list[Numbers]:
    """Predict each question by a model that saw none of its group."""
    groups = [group(one) for one in some]
    scores: dict[int, Numbers] = {}
    for held in sorted(set(groups)):
        model = train([*(one for one, own in zip(some, groups, strict=True) if own != held), *others])
        own = [place for place, name in enumerate(groups) if name == held]
        scores |= dict(zip(own, predicted(model, [some[place] for place in own]), strict=True))
    return [scores[place] for place in range(len(some))]


def folds(some: Sequence[Example]) -> Callable[[Example], int]:
    """Group questions so that those that share an answering session are held out together."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for one in some:
        sessions = sorted(one.question.sessions)
        for other in sessions[1:]:
            parent[root(other)] = root(sessions[0])

    def fold(one: Example) -> int:
        name = root(min(one.question.sessions, default=one.question.id))
        return int(hashlib.sha256(name.encode()).hexdigest(), 16) % FOLDS

    return fold


def report(name: str, some: Sequence[Example], scores: Sequence[Numbers]) -> None:
    recall: dict[int, list[float]] = {5: [], 10: []}
    every, some_of = [], []
    for one, score in zip(some, scores, strict=True):
        question = one.question
        if not question.answerable:
            continue
        order = np.argsort(-score, kind="stable")
        if question.turns:
            turns = [one.turns[place] for place in order]
            for k, shares in recall.items():
                shares.append(len(question.turns.intersection(turns[:k])) / len(question.turns))
        if question.sessions:
            sessions = set([*dict.fromkeys(one.sessions[place] for place in order)][:5])
            every.append(question.sessions <= sessions)
            some_of.append(not question.sessions.isdisjoint(sessions))
    figures = [np.mean(values) * 100 for values in (recall[5], recall[10], some_of, every)]
    print(f"{name:52}" + "".join(f"{figure:8.1f}" for figure in figures), flush=True)


def _standard(values: Numbers) -> Numbers:
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longmemeval", type=Path, required=True)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for the databases, to use them again")
    parser.add_argument("--write", action="store_true", help=f"replace {HOME.name}")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        long = examples(read_longmemeval(chosen.longmemeval, single_store=True), folder)
        chat = examples(read_locomo(chosen.locomo), folder) if chosen.locomo else []
    print(f"{'':52}" + "".join(f"{name:>8}" for name in ("R@5", "R@10", "any@5", "all@5")))
    shipped = train(long)
    report("LongMemEval, weighted sum", long, [one.plain for one in long])
    report("LongMemEval, ranker trained on other questions", long, held_out(long, folds(long)))
    if chat:
        report("LoCoMo, weighted sum", chat, [one.plain for one in chat])
        report("LoCoMo, shipped ranker (trained on LongMemEval)", chat, predicted(shipped, chat))
        report("LoCoMo, trained on the other conversations", chat, held_out(chat, lambda one: one.group))
        report("LongMemEval, ranker trained on LoCoMo", long, predicted(train(chat), long))
    if chosen.write:
        trees = grown(NAMES, [tree["tree_structure"] for tree in shipped.dump_model()["tree_info"]])
        HOME.write_text(json.dumps(trees.to_json(), separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{HOME.name}: {HOME.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
