"""Benchmarks of Engram on public data sets, in simulated worlds, and at growing sizes, beside simpler baselines.

- `cli` is the command `engram bench`, found by an entry point.
- Recall: `data` reads LoCoMo and LongMemEval, `retrieval` asks their questions, `baselines` are the systems beside it,
  `rankings` stores and reports the results; `metrics` has the scores.
- Learning: `replay` replays recorded decisions, `default_advice` asks for suggestions about them, `advice` simulates
  teams at work, `calibration` checks rates and intervals, `prevention` checks, `transfer` shared knowledge.
- `grouping` groups log lines; `redaction` and `poisoning` measure the defences, on data made by `sensitive`.
- `latency` times calls at growing sizes, on memories made by `synthetic`.
"""

from __future__ import annotations

from typing import Protocol


class ProgressCallback(Protocol):
    """Called with the work done and the total (0 if unknown)."""

    def __call__(self, done: int, total: int, label: str = "", /) -> None:
        """Report progress."""
        ...


def no_progress(done: int, total: int, label: str = "", /) -> None:
    """Ignore the progress."""
