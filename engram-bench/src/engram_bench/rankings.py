"""Store rankings in a file, and compute the report from nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from engram.errors import InvalidInput, NotFound
from engram_bench.metrics import CONFIDENCE, KS, ROUNDS, SEED, Estimate, RankingScores, auc, bootstrap, scores

FORMAT = 1
ENGRAM = "engram"
ALL = "all"

T = TypeVar("T")
Level = Literal["turn", "session"]
LEVELS: tuple[Level, ...] = ("turn", "session")


@dataclass(frozen=True, slots=True)
class Ranking:
    """One system's answer to one question: ids with scores, best first, without text of the data set."""

    question: str
    type: str
    level: Level
    system: str
    answerable: bool
    gold: tuple[str, ...]
    ranked: tuple[tuple[str, float], ...]
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """A benchmark run: its data, its embedder, what was left out and why."""

    benchmark: str
    engram: str
    embedder: str
    data_sha256: str
    single_store: bool
    conversations: int
    turns: int
    left_out: Mapping[str, int]
    skipped: tuple[str, ...] = ()
    format: int = FORMAT


_run = TypeAdapter(BenchmarkRun)
_ranking = TypeAdapter(Ranking)


def write(path: Path, run: BenchmarkRun, rankings: Iterable[Ranking]) -> None:
    """Write a file of JSON lines: the run first, then one ranking per line."""
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")
        file.writelines(json.dumps(asdict(ranking)) + "\n" for ranking in rankings)


def read(path: Path) -> tuple[BenchmarkRun, list[Ranking]]:
    """Read the output of `write`. Raises `NotFound`, or `InvalidInput` with the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound(f"there is no file {path}; `engram bench locomo --out {path}` makes one") from None
    except UnicodeDecodeError:
        raise _not_rankings(path, 1, "it is not UTF-8 text") from None
    run = _parsed(_run, path, 1, lines[0] if lines else "")
    if run.format != FORMAT:
        raise InvalidInput(f"{path} has the format {run.format}, this Engram reads {FORMAT}; use the one that wrote it")
    return run, [_parsed(_ranking, path, number, line) for number, line in enumerate(lines[1:], start=2)]


def _parsed(shape: TypeAdapter[T], path: Path, number: int, line: str) -> T:
    try:
        return shape.validate_json(line)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{part}: " for part in problem["loc"])
        raise _not_rankings(path, number, where + problem["msg"]) from None


def _not_rankings(path: Path, line: int, reason: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {line}, is not of a rankings file: {reason}; give one that --out has written")


def report(run: BenchmarkRun, rankings: Sequence[Ranking]) -> dict[str, Any]:
    """Return the full report of a run as JSON."""
    asked = {r.question: r for r in rankings if r.system == ENGRAM and r.level == "turn"}
    systems = list(dict.fromkeys(r.system for r in rankings))
    return {
        "run": asdict(run),
        "questions": {
            "asked": len(asked),
            "answerable": sum(r.answerable for r in asked.values()),
            "unanswerable": sum(not r.answerable for r in asked.values()),
            "scored": {level: len(_scored(rankings, level, ENGRAM)) for level in LEVELS},
        },
        "intervals": {"method": "bootstrap", "confidence": CONFIDENCE, "rounds": ROUNDS, "seed": SEED},
        "results": [row for level in LEVELS for system in systems for row in _rows(rankings, level, system)],
        "better_than": [
            row for level in LEVELS for system in systems if system != ENGRAM for row in _gains(rankings, level, system)
        ],
        "confidence": _confidence(list(asked.values())),
    }


def _scored(rankings: Sequence[Ranking], level: Level, system: str) -> list[Ranking]:
    """Return the rankings that are scored: those of answerable questions with gold."""
    chosen = [r for r in rankings if r.level == level and r.system == system and r.answerable and r.gold]
    return sorted(chosen, key=lambda r: r.question)


def _rows(rankings: Sequence[Ranking], level: Level, system: str) -> list[dict[str, Any]]:
    scored = _scored(rankings, level, system)
    types = {ALL: scored} | {type: [r for r in scored if r.type == type] for type in sorted({r.type for r in scored})}
    return [
        {"level": level, "system": system, "type": type, "questions": len(chosen), "k": k, **named}
        for type, chosen in types.items()
        if chosen
        for k, named in _estimates(_matrix(chosen))
    ]


def _gains(rankings: Sequence[Ranking], level: Level, system: str) -> list[dict[str, Any]]:
    """Return how much better Engram is than another system on the questions both answered."""
    ours = {r.question: r for r in _scored(rankings, level, ENGRAM)}
    theirs = [r for r in _scored(rankings, level, system) if r.question in ours]
    if not theirs:
        return []
    gain = _matrix([ours[r.question] for r in theirs]) - _matrix(theirs)
    return [
        {"level": level, "system": system, "questions": len(theirs), "k": k, **named} for k, named in _estimates(gain)
    ]


def _matrix(rankings: Sequence[Ranking]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return one row per question: the scores at each k."""
    rows = [[s for k in KS for s in scores([id for id, _ in r.ranked], r.gold, k)] for r in rankings]
    return np.array(rows, dtype=np.float64)


def _estimates(matrix: np.ndarray[Any, np.dtype[np.float64]]) -> list[tuple[int, dict[str, dict[str, float]]]]:
    flat, width = bootstrap(matrix), len(RankingScores._fields)
    at = {k: flat[place * width : (place + 1) * width] for place, k in enumerate(KS)}
    return [(k, {n: _rounded(e) for n, e in zip(RankingScores._fields, found, strict=True)}) for k, found in at.items()]


def _rounded(estimate: Estimate) -> dict[str, float]:
    return {name: round(value, 6) for name, value in estimate._asdict().items()}


def _confidence(asked: Sequence[Ranking]) -> dict[str, Any]:
    """Measure how well the confidence of the first hit separates answerable from unanswerable questions."""
    known = [r for r in asked if r.confidence is not None and math.isfinite(r.confidence)]
    answerable = [r.confidence or 0.0 for r in known if r.answerable]
    unanswerable = [r.confidence or 0.0 for r in known if not r.answerable]
    area = auc(answerable, unanswerable)
    return {
        "auc": None if area is None else round(area, 6),
        "answerable": len(answerable),
        "unanswerable": len(unanswerable),
    }
