"""Run all worlds, in several processes if wanted, and report their figures with 95% intervals over worlds."""

from __future__ import annotations

import json
import math
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engram.errors import InvalidInput
from engram.ports import Embedder
from engram_bench import ProgressCallback, no_progress
from engram_bench.advice import contexts
from engram_bench.advice.kinds import KindOfWork
from engram_bench.advice.simulation import ARMS, ArmRun, default_embedder, run_world
from engram_bench.advice.worlds import DAYS, kinds
from engram_bench.metrics import CONFIDENCE, ROUNDS, SEED, Estimate

SEEDS = 1
SHORT_DAYS, SHORT_KINDS = 12, 1
AMOUNTS = frozenset(
    {
        "regret",
        "width",
        "outcomes until given up",
        "outcomes of the new best until recommended",
    }
)
"""Figures that are not shares."""
QUANTILE = 1.96
WORLDS = 5
"""With fewer worlds, intervals are over situations."""
SEEN, HELD_OUT = "seen", "held out"


def choose_kinds(names: Sequence[str] = (), *, short: bool = False) -> tuple[KindOfWork, ...]:
    """Select kinds by name, or by `seen` and `held out`; all without names, or two for a short run."""
    every = {SEEN: kinds(held_out=False), HELD_OUT: kinds(held_out=True)}
    if not names:
        return tuple(kind for group in every.values() for kind in (group[:SHORT_KINDS] if short else group))
    known = {kind.name: (kind,) for group in every.values() for kind in group} | every
    for name in names:
        if name not in known:
            raise InvalidInput(f"there is no world {name!r}; there are {', '.join(known)}")
    return tuple({kind.name: kind for name in names for kind in known[name]}.values())


def run(
    chosen: Sequence[KindOfWork],
    seeds: int = SEEDS,
    *,
    days: int = DAYS,
    embedder: str | None = None,
    jobs: int = 1,
    on_progress: ProgressCallback = no_progress,
) -> tuple[dict[str, Any], list[ArmRun]]:
    """Run every world with every seed; return the report, and all runs in a fixed order."""
    tasks = [(kind.name, seed, days, embedder) for seed in range(seeds) for kind in chosen]
    runs: list[ArmRun] = []
    for done, found in enumerate(_finished(tasks, jobs), start=1):
        runs += found
        on_progress(done, len(tasks), found[0].kind)
    runs.sort(key=lambda each: (not each.seen, each.kind, each.seed, ARMS.index(each.arm)))
    return report(runs, seeds=seeds, days=days, embedder=_embedder(embedder).identity), runs


def ask_contexts(
    embedders: Sequence[str | None], *, on_progress: ProgressCallback = no_progress
) -> dict[str, list[dict[str, Any]]]:
    """Ask about 1 to 20 contexts with each of these embedders."""
    found = [_embedder(name) for name in embedders]
    return {each.identity: contexts.run(each, on_progress=on_progress) for each in found}


def report(runs: Sequence[ArmRun], **facts: Any) -> dict[str, Any]:
    """Summarise runs by group of worlds and arm."""
    groups = {SEEN: [run for run in runs if run.seen], HELD_OUT: [run for run in runs if not run.seen]}
    return {
        **facts,
        "worlds": {name: sorted({run.kind for run in group}) for name, group in groups.items()},
        "arms": {
            name: {arm: summary([run for run in group if run.arm == arm]) for arm in ARMS}
            for name, group in groups.items()
            if group
        },
    }


def summary(runs: Sequence[ArmRun]) -> dict[str, dict[str, float]]:
    """Return every figure of some runs with its interval and its number of cases.

    Intervals come from resampling worlds, or their situations if there are fewer than five worlds.
    """
    units = [run.counts for run in runs]
    if len(runs) < WORLDS:
        units = [part for run in runs for part in run.parts.values()]
    names = dict.fromkeys(name for unit in units for name in unit)
    found = {}
    for name in names:
        pairs = np.array([unit.get(name, (0.0, 0.0)) for unit in units], dtype=np.float64)
        found[name] = {**ratio(pairs, share=name not in AMOUNTS)._asdict(), "cases": float(pairs[:, 1].sum())}
    return found


def ratio(pairs: np.ndarray[Any, np.dtype[np.float64]], *, share: bool = True) -> Estimate:
    """Divide the sum of the first column by that of the second, with a bootstrap interval over rows.

    A share of 0 or 1 has Wilson's interval, as resampling cannot show what was never seen.
    """
    total, cases = pairs.sum(axis=0)
    if not cases:
        return Estimate(math.nan, math.nan, math.nan)
    if share and total in {0, cases}:
        edge = QUANTILE**2 / (cases + QUANTILE**2)
        return Estimate(0.0, 0.0, edge) if total == 0 else Estimate(1.0, 1 - edge, 1.0)
    count = len(pairs)
    drawn = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), size=ROUNDS) @ pairs
    shares = drawn[drawn[:, 1] > 0]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(shares[:, 0] / shares[:, 1], [tail, 1 - tail])
    return Estimate(float(total / cases), float(low), float(high))


def write(path: Path, runs: Iterable[ArmRun]) -> None:
    """Write every question and answer into a file, as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for run in runs:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in run.rows)


def _finished(tasks: Sequence[tuple[str, int, int, str | None]], jobs: int) -> Iterator[list[ArmRun]]:
    if jobs <= 1 or len(tasks) == 1:
        yield from (_run_world(*task) for task in tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=jobs, mp_context=spawn) as pool:
        for found in as_completed([pool.submit(_run_world, *task) for task in tasks]):
            yield found.result()


def _run_world(name: str, seed: int, days: int, embedder: str | None) -> list[ArmRun]:
    return run_world(choose_kinds([name])[0], seed, days=days, embedder=_embedder(embedder))


@cache
def _embedder(name: str | None) -> Embedder:
    return default_embedder(name)
