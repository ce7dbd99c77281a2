"""Chart data: drawn in the browser with plotly if it is installed, and shown as a table in any case."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, Literal

from engram.learning.decisions.beta import Beta
from engram.model import FailurePattern, PreventionCheck
from engram.model.upkeep import EvaluationReport

_STYLE = re.compile(rb'document\.getElementById\("([0-9a-f]{32,64})"\)')
Kind = Literal["line", "bar", "area", "interval"]
MAX_DAILY = timedelta(days=92)
"""The longest time that is drawn by day; longer times are drawn by week."""
MAX_SPAN = timedelta(weeks=260)
"""Older failures are not drawn."""
WEEKS = 12


@dataclass(frozen=True, slots=True)
class Series:
    """A series of values, with an interval for each if it is known."""

    name: str
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; `share` means that values are fractions, shown as percents."""

    kind: Kind
    x: tuple[str, ...]
    series: tuple[Series, ...]
    label: str
    share: bool = False

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value for the browser."""
        lines = [{"name": one.name, "y": one.y, "low": one.low, "high": one.high} for one in self.series]
        return {"kind": self.kind, "x": self.x, "lines": lines, "share": self.share}

    def rows(self) -> list[tuple[str, list[str]]]:
        """Return the rows of a table, newest first."""
        found = [(x, [self._cell(line, at) for line in self.series]) for at, x in enumerate(self.x)]
        return found if self.kind == "interval" else found[::-1]

    def _cell(self, line: Series, at: int) -> str:
        value = line.y[at]
        if value is None:
            return "–"
        if not self.share:
            return f"{value:,.10g}"
        low, high = (line.low[at], line.high[at]) if line.low and line.high else (None, None)
        return f"{value:.0%}" + (f" ({low:.0%} – {high:.0%})" if low is not None and high is not None else "")


def growth(days: Mapping[date, tuple[int, int]]) -> Chart | None:
    """Draw the number of memories at the end of each day with changes, and before the first."""
    if not days:
        return None
    total, totals, stored_by_day = 0, [0.0], [0.0]
    for day in sorted(days):
        stored, deleted = days[day]
        total += stored - deleted
        totals.append(float(total))
        stored_by_day.append(float(stored))
    names = tuple(day.isoformat() for day in [min(days) - timedelta(days=1), *sorted(days)])
    return Chart(
        "area", names, (Series("memories", tuple(totals)), Series("stored that day", tuple(stored_by_day))), "day"
    )


def weekly_measures(report: EvaluationReport, *names: tuple[str, str]) -> Chart | None:
    """Draw measures of an evaluation by week; `names` are pairs of a measure and its label."""
    lines = []
    for name, label in names:
        measures = [getattr(row, name) for row in report.rows]
        if any(measure.share is not None for measure in measures):
            lines.append(
                Series(
                    label,
                    tuple(measure.share for measure in measures),
                    tuple(measure.interval[0] if measure.interval else None for measure in measures),
                    tuple(measure.interval[1] if measure.interval else None for measure in measures),
                )
            )
    x = tuple(row.start.date().isoformat() for row in report.rows)
    return Chart("line", x, tuple(lines), report.period, share=True) if lines else None


def rates(rows: Iterable[tuple[str, int, float]]) -> Chart | None:
    """Draw success rates of actions with intervals; rows are name, attempts and the sum of their qualities."""
    names, means, lows, highs = [], [], [], []
    for name, attempts, quality in rows:
        belief = Beta(1 + quality, 1 + attempts - quality)
        low, high = belief.interval()
        names.append(name)
        means.append(belief.mean)
        lows.append(low)
        highs.append(high)
    if not names:
        return None
    return Chart(
        "interval", tuple(names), (_interval_series("success rate", means, lows, highs),), "action", share=True
    )


def occurrences(times: Iterable[datetime]) -> Chart | None:
    """Draw the number of failures by day, or by week over longer times."""
    days = sorted(at.date() for at in times)
    days = [day for day in days if days[-1] - day < MAX_SPAN]
    if not days:
        return None
    step = timedelta(days=1 if days[-1] - days[0] < MAX_DAILY else 7)
    counts = Counter((day - days[0]) // step for day in days)
    last = (days[-1] - days[0]) // step
    x = tuple((days[0] + number * step).isoformat() for number in range(last + 1))
    y = tuple(float(counts[number]) for number in range(last + 1))
    return Chart("bar", x, (Series("failures", y),), "day" if step.days == 1 else "week from")


def counts_by_week(times: Iterable[datetime], now: datetime) -> tuple[int, ...]:
    """Count times in each of the last weeks, newest last."""
    ages = Counter((now - at) // timedelta(days=7) for at in times)
    return tuple(ages[age] for age in reversed(range(WEEKS)))


def effect(pattern: FailurePattern) -> Chart | None:
    """Draw failures per opportunity before each check warned, and when its warning was heeded and ignored."""
    checks: list[PreventionCheck] = [
        each for each in pattern.prevention_checks if each.effect and each.effect.after.opportunities
    ]
    effects = [check.effect for check in checks if check.effect is not None]
    if not effects:
        return None
    sides = {
        "before": [each.before for each in effects],
        "heeded": [each.heeded or each.before for each in effects],
        "ignored": [each.ignored or each.before for each in effects],
    }
    lines = tuple(
        _interval_series(
            name,
            [rate.rate if rate.opportunities else None for rate in found],
            [rate.interval[0] if rate.opportunities else None for rate in found],
            [rate.interval[1] if rate.opportunities else None for rate in found],
        )
        for name, found in sides.items()
        if any(rate.opportunities for rate in found)
    )
    return Chart("interval", tuple(check.name for check in checks), lines, "check", share=True)


def _interval_series(
    name: str, means: Sequence[float | None], lows: Sequence[float | None], highs: Sequence[float | None]
) -> Series:
    return Series(name, tuple(means), tuple(lows), tuple(highs))


@cache
def plotly() -> bytes | None:
    """Return plotly's JavaScript, compressed; `None` if plotly is not installed."""
    return None if plotly_version() is None else gzip.compress(_script(), 6, mtime=0)


@cache
def plotly_styles() -> tuple[str, ...]:
    """Return the ids of styles that plotly adds to a page unless it has them; the security policy forbids styles."""
    return tuple(dict.fromkeys(id.decode() for id in _STYLE.findall(_script())))


def _script() -> bytes:
    return (files("plotly") / "package_data" / "plotly.min.js").read_bytes()


@cache
def plotly_version() -> str | None:
    """Return the version of plotly; `None` if it is not installed."""
    try:
        return version("plotly")
    except PackageNotFoundError:
        return None
