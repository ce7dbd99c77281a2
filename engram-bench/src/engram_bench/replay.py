"""Replay decisions with fully known outcomes, showing a learner only the outcome of what it chose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from engram.errors import InvalidInput
from engram.learning.decisions import belief, suggestions
from engram.learning.decisions.belief import BeliefSettings, EvidenceSums
from engram.learning.scores import calibration_error
from engram.model import describe_error
from engram.ports import Embedder, Redactor
from engram_bench import ProgressCallback, no_progress
from engram_bench.data import unpacked
from engram_bench.metrics import Estimate, bootstrap

SEEDS = 20
NEIGHBOURS = 256
BATCH = 64
FORMAT = 'a line of decisions is {"context": "…", "outcomes": {"action": 0 to 1, …}}, with the same actions in each'

ENGRAM, PLACEBO, CONTEXT_FREE, KNOWN_TYPE, RANDOM = "engram", "placebo", "context-free", "told-type", "random"
UNRELATED, UNRELATED_FREE = "engram, context irrelevant", "context-free, context irrelevant"

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]


class TaskRow(BaseModel):
    """One task, with the outcome of every action."""

    context: str = Field(min_length=1)
    outcomes: dict[str, float] = Field(min_length=2)
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks with the outcomes of the same actions each; `types` only if every task has one."""

    contexts: tuple[str, ...]
    actions: tuple[str, ...]
    outcomes: Numbers
    types: tuple[str, ...] | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """The choices and outcomes of an arm: one row per seed, one column per task in input order."""

    arm: str
    choices: Places
    got: Numbers
    predicted: Numbers
    """The estimated rate of the chosen action before its outcome was known."""


@dataclass(frozen=True, slots=True)
class ReplayedArms:
    """All arms on the same tasks in the same orders."""

    tasks: Tasks
    embedder: str
    replays: dict[str, Replay]


def read(path: Path) -> Tasks:
    """Read the decisions in a file of JSON lines, gzipped or not."""
    text = unpacked(path)
    rows = list[TaskRow]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = TaskRow.model_validate_json(line)
        except ValidationError as error:
            raise InvalidInput(f"{path.name}, line {number}: {describe_error(error)}; {FORMAT}") from None
        if rows and row.outcomes.keys() != rows[0].outcomes.keys():
            raise InvalidInput(f"{path.name}, line {number} has other actions than line 1; {FORMAT}")
        if not all(0 <= outcome <= 1 for outcome in row.outcomes.values()):
            raise InvalidInput(f"{path.name}, line {number} has an outcome that is not from 0 to 1; {FORMAT}")
        rows.append(row)
    if not rows:
        raise InvalidInput(f"{path.name} is empty; {FORMAT}")
    actions = tuple(sorted(rows[0].outcomes))
    types = tuple(row.type for row in rows if row.type is not None)
    return Tasks(
        contexts=tuple(row.context for row in rows),
        actions=actions,
        outcomes=np.array([[row.outcomes[action] for action in actions] for row in rows], dtype=np.float64),
        types=types if len(types) == len(rows) else None,
        sha256=hashlib.sha256(text).hexdigest(),
    )


def run(
    tasks: Tasks,
    embedder: Embedder,
    redactor: Redactor,
    *,
    seeds: int = SEEDS,
    on_progress: ProgressCallback = no_progress,
) -> tuple[dict[str, Any], ReplayedArms]:
    """Embed every context once, replay all arms with so many seeds, and report; nothing is stored."""
    vectors = embed(tasks.contexts, embedder, redactor, on_progress)
    played = play(tasks, vectors, embedder.identity, seeds=seeds, on_progress=on_progress)
    return report(played), played


def embed(
    contexts: Sequence[str], embedder: Embedder, redactor: Redactor, on_progress: ProgressCallback = no_progress
) -> NDArray[np.float32]:
    """Return one row per context, in order; texts of similar length are embedded together, which is faster."""
    order = sorted(range(len(contexts)), key=lambda place: len(contexts[place]))
    vectors = np.zeros((len(contexts), embedder.dim), dtype=np.float32)
    for first in range(0, len(order), BATCH):
        some = order[first : first + BATCH]
        cleaned = redactor.clean([contexts[place] for place in some])
        vectors[some] = embedder.embed([one.text for one in cleaned])
        on_progress(first + len(some), len(order), "embedding")
    return vectors


def play(
    tasks: Tasks,
    vectors: NDArray[np.float32],
    embedder: str = "",
    *,
    seeds: int = SEEDS,
    settings: BeliefSettings = belief.DEFAULT,
    on_progress: ProgressCallback = no_progress,
) -> ReplayedArms:
    """Replay every arm on every seed's order of the tasks; a seed gives every arm the same order."""
    likeness = ContextSimilarity.of(vectors)
    arms: dict[str, Callable[[int], _Stream]] = {
        ENGRAM: lambda seed: _stream(tasks, seed, settings, likeness),
        PLACEBO: lambda seed: _stream(tasks, seed, settings, likeness, shuffled=True),
        CONTEXT_FREE: lambda seed: _stream(tasks, seed, settings),
        RANDOM: lambda seed: _at_random(tasks, seed),
        UNRELATED: lambda seed: _stream(_with_irrelevant_contexts(tasks, seed), seed, settings, likeness),
        UNRELATED_FREE: lambda seed: _stream(_with_irrelevant_contexts(tasks, seed), seed, settings),
    }
    if tasks.types is not None:
        known = ContextSimilarity.of_types(tasks.types)
        arms[KNOWN_TYPE] = lambda seed: _stream(tasks, seed, settings, known)
    done, replays = 0, {}
    for name, arm in arms.items():
        streams = []
        for seed in range(seeds):
            streams.append(arm(seed))
            done += 1
            on_progress(done, seeds * len(arms), name)
        replays[name] = Replay(name, *(np.stack(part) for part in zip(*streams, strict=True)))
    return ReplayedArms(tasks, embedder, replays)


def report(played: ReplayedArms) -> dict[str, Any]:
    """Return mean outcomes over the whole stream, paired differences over seeds, and calibration."""
    outcomes, replays = played.tasks.outcomes, played.replays
    means = {name: replay.got.mean(axis=1) for name, replay in replays.items()}
    pairs = [(ENGRAM, CONTEXT_FREE), (ENGRAM, PLACEBO), (PLACEBO, CONTEXT_FREE), (UNRELATED, UNRELATED_FREE)]
    pairs += [(ENGRAM, KNOWN_TYPE)] if KNOWN_TYPE in replays else []
    ours = replays[ENGRAM]
    base = outcomes.mean(axis=0)[ours.choices]
    return {
        "tasks": len(outcomes),
        "actions": len(played.tasks.actions),
        "seeds": len(ours.got),
        "embedder": played.embedder,
        "data_sha256": played.tasks.sha256,
        "means": {name: _shown(bootstrap(mean[:, None])[0]) for name, mean in means.items()},
        "best_single": float(outcomes.mean(axis=0).max()),
        "oracle": float(outcomes.max(axis=1).mean()),
        "differences": {f"{a} - {b}": _shown(bootstrap((means[a] - means[b])[:, None])[0]) for a, b in pairs},
        "brier": float(np.mean((ours.predicted - ours.got) ** 2)),
        "brier_of_base_rates": float(np.mean((base - ours.got) ** 2)),
        "ece": calibration_error(ours.predicted.ravel(), ours.got.ravel()),
    }


def write(path: Path, played: ReplayedArms) -> None:
    """Write one JSON object per task, in input order: the choices and outcomes of every learning arm, by seed."""
    told = [ENGRAM, PLACEBO, CONTEXT_FREE, *([KNOWN_TYPE] if KNOWN_TYPE in played.replays else [])]
    with path.open("w", encoding="utf-8") as file:
        for place in range(len(played.tasks.contexts)):
            arms = {
                name: {
                    "mean": float(played.replays[name].got[:, place].mean()),
                    "choices": [played.tasks.actions[choice] for choice in played.replays[name].choices[:, place]],
                    "outcomes": played.replays[name].got[:, place].tolist(),
                }
                for name in told
            }
            file.write(json.dumps({"row": place, **arms}, ensure_ascii=False) + "\n")


_Stream = tuple[Places, Numbers, Numbers]


@dataclass(frozen=True, slots=True)
class ContextSimilarity:
    """The similarity of all contexts, and for each the others, most similar first."""

    matrix: NDArray[np.float32]
    ranked: NDArray[np.int32]
    most: int = NEIGHBOURS
    """Neighbours that are found."""

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> ContextSimilarity:
        """Compute it as the cosine of vectors, at least 0."""
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.maximum(lengths, np.float32(1e-12))
        matrix = np.clip(unit @ unit.T, 0, 1).astype(np.float32)
        np.fill_diagonal(matrix, -1)
        return cls(matrix, np.stack([np.argsort(-row, kind="stable").astype(np.int32) for row in matrix]))

    @classmethod
    def of_types(cls, types: Sequence[str]) -> ContextSimilarity:
        """Treat contexts of one type as the same, and all others as unrelated."""
        names = {name: place for place, name in enumerate(dict.fromkeys(types))}
        return replace(cls.of(np.eye(len(names), dtype=np.float32)[[names[name] for name in types]]), most=len(types))

    def before(self, place: int, position: Places, step: int) -> tuple[Places, Numbers]:
        """Return the positions of the neighbours before a step, and their similarities."""
        others = self.ranked[place]
        when = position[others]
        seen = np.flatnonzero(when < step)[: self.most]
        return when[seen], np.maximum(self.matrix[place, others[seen]], 0).astype(np.float64)


def _stream(
    tasks: Tasks,
    seed: int,
    settings: BeliefSettings,
    likeness: ContextSimilarity | None = None,
    *,
    shuffled: bool = False,
) -> _Stream:
    """Run one stream, drawing from the estimates of `learning.decisions.belief`; without likeness, context-free."""
    dice, chance = np.random.default_rng(seed), Random(seed)  # noqa: S311 - a replay, not cryptography
    count, width = tasks.outcomes.shape
    order = dice.permutation(count)
    texts = dice.permutation(count) if shuffled else order
    position = np.empty(count, dtype=np.intp)
    position[texts] = np.arange(count)
    chosen, got, predicted = np.zeros(count, dtype=np.intp), np.zeros(count), np.zeros(count)
    tries, good, nothing = np.zeros(width), np.zeros(width), np.zeros(width)
    for step in range(count):
        here, near = (nothing, nothing), (nothing, nothing, nothing)
        if likeness is not None:
            past, alike = likeness.before(int(texts[step]), position, step)
            here, near = _sums(chosen[past], got[past], alike, width, settings)
        rest, rest_good = tries - here[0] - near[0], good - here[1] - near[1]
        evidence = EvidenceSums(*here, *near, np.maximum(rest, 0), np.clip(rest_good, 0, np.maximum(rest, 0)))
        beliefs = belief.estimate_rates(evidence, settings)
        action = suggestions.draw(beliefs, chance)
        chosen[step], predicted[step] = action, beliefs.mean[action]
        got[step] = tasks.outcomes[order[step], action]
        tries[action] += 1
        good[action] += got[step]
    back = np.argsort(order)
    return chosen[back], got[back], predicted[back]


def _sums(
    actions: Places, got: Numbers, alike: Numbers, width: int, settings: BeliefSettings
) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers, Numbers]]:
    same: NDArray[np.bool_] = alike >= belief.SAME
    close = np.zeros(len(alike))
    close[~same] = belief.closeness(alike[~same], settings)
    close[close < belief.LEAST_WEIGHT] = 0.0
    return (
        (_total(actions, same.astype(np.float64), width), _total(actions, same * got, width)),
        (_total(actions, close, width), _total(actions, close * got, width), _total(actions, close**2, width)),
    )


def _total(actions: Places, values: Numbers, width: int) -> Numbers:
    return np.bincount(actions, values, width).astype(np.float64)


def _at_random(tasks: Tasks, seed: int) -> _Stream:
    count, width = tasks.outcomes.shape
    chosen = np.random.default_rng(seed).integers(0, width, (count,), dtype=np.intp)
    return chosen, tasks.outcomes[np.arange(count), chosen], np.full(count, float(tasks.outcomes.mean()))


def _with_irrelevant_contexts(tasks: Tasks, seed: int) -> Tasks:
    """Return the same tasks with outcomes drawn from each action's overall rate, whatever the context."""
    dice = np.random.default_rng(seed + 1_000_003)
    drawn = dice.random(tasks.outcomes.shape) < tasks.outcomes.mean(axis=0)
    return Tasks(tasks.contexts, tasks.actions, drawn.astype(np.float64))


def _shown(estimate: Estimate) -> dict[str, float]:
    return estimate._asdict()
