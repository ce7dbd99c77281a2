"""Charts as plain values: the browser draws them if it can, and the page shows them as a table in any case."""

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
DAY_BY_DAY = timedelta(days=92)
"""What takes longer is drawn week by week."""
AT_MOST = timedelta(weeks=260)
WEEKS = 12


@dataclass(frozen=True, slots=True)
class Line:
    """One row of values, and the interval that each lies in, if that is known."""

    name: str
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """What is to be drawn; `share` says that values are parts of a whole."""

    kind: Kind
    x: tuple[str, ...]
    lines: tuple[Line, ...]
    label: str
    share: bool = False

    def told(self) -> dict[str, Any]:
        """The same for the browser."""
        lines = [{"name": one.name, "y": one.y, "low": one.low, "high": one.high} for one in self.lines]
        return {"kind": self.kind, "x": self.x, "lines": lines, "share": self.share}

    def rows(self) -> list[tuple[str, list[str]]]:
        """The same as a table, the newest first."""
        found = [(x, [self._cell(line, at) for line in self.lines]) for at, x in enumerate(self.x)]
        return found if self.kind == "interval" else found[::-1]

    def _cell(self, line: Line, at: int) -> str:
        value = line.y[at]
        if value is None:
            return "–"
        if not self.share:
            return f"{value:,.10g}"
        low, high = (line.low[at], line.high[at]) if line.low and line.high else (None, None)
        return f"{value:.0%}" + (f" ({low:.0%} – {high:.0%})" if low is not None and high is not None else "")


def growth(days: Mapping[date, tuple[int, int]]) -> Chart | None:
    """How many memories there were at the end of each day on which some came or went, and before the first."""
    if not days:
        return None
    total, totals, came = 0, [0.0], [0.0]
    for day in sorted(days):
        stored, gone = days[day]
        total += stored - gone
        totals.append(float(total))
        came.append(float(stored))
    names = tuple(day.isoformat() for day in [min(days) - timedelta(days=1), *sorted(days)])
    return Chart("area", names, (Line("memories", tuple(totals)), Line("stored that day", tuple(came))), "day")


def measured(report: EvaluationReport, *names: tuple[str, str]) -> Chart | None:
    """Measures of an evaluation, week by week: pairs of the name of a measure and what to call it."""
    lines = []
    for name, called in names:
        measures = [getattr(row, name) for row in report.rows]
        if any(measure.share is not None for measure in measures):
            lines.append(
                Line(
                    called,
                    tuple(measure.share for measure in measures),
                    tuple(measure.interval[0] if measure.interval else None for measure in measures),
                    tuple(measure.interval[1] if measure.interval else None for measure in measures),
                )
            )
    x = tuple(row.start.date().isoformat() for row in report.rows)
    return Chart("line", x, tuple(lines), report.period, share=True) if lines else None


def rates(rows: Iterable[tuple[str, int, float]]) -> Chart | None:
    """Success rates of actions with their intervals: name, attempts and the sum of their qualities."""
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
    return Chart("interval", tuple(names), (_line("success rate", means, lows, highs),), "action", share=True)


def occurrences(times: Iterable[datetime]) -> Chart | None:
    """How often something happened day by day, or week by week if that is long, in the last years at most."""
    days = sorted(at.date() for at in times)
    days = [day for day in days if days[-1] - day < AT_MOST]
    if not days:
        return None
    step = timedelta(days=1 if days[-1] - days[0] < DAY_BY_DAY else 7)
    counts = Counter((day - days[0]) // step for day in days)
    last = (days[-1] - days[0]) // step
    x = tuple((days[0] + number * step).isoformat() for number in range(last + 1))
    y = tuple(float(counts[number]) for number in range(last + 1))
    return Chart("bar", x, (Line("failures", y),), "day" if step.days == 1 else "week that begins")


def weekly(times: Iterable[datetime], now: datetime) -> tuple[int, ...]:
    """How often something happened in each of the last weeks, the newest last."""
    ages = Counter((now - at) // timedelta(days=7) for at in times)
    return tuple(ages[age] for age in reversed(range(WEEKS)))


def effect(pattern: FailurePattern) -> Chart | None:
    """Draw the failures per opportunity while each check was silent, and when it was heeded and ignored."""
    checks: list[PreventionCheck] = [
        each for each in pattern.prevention_checks if each.effect and each.effect.after.opportunities
    ]
    told = [check.effect for check in checks if check.effect is not None]
    if not told:
        return None
    sides = {
        "silent": [each.before for each in told],
        "heeded": [each.heeded or each.before for each in told],
        "ignored": [each.ignored or each.before for each in told],
    }
    lines = tuple(
        _line(
            name,
            [rate.rate if rate.opportunities else None for rate in found],
            [rate.interval[0] if rate.opportunities else None for rate in found],
            [rate.interval[1] if rate.opportunities else None for rate in found],
        )
        for name, found in sides.items()
        if any(rate.opportunities for rate in found)
    )
    return Chart("interval", tuple(check.name for check in checks), lines, "check", share=True)


def _line(
    name: str, means: Sequence[float | None], lows: Sequence[float | None], highs: Sequence[float | None]
) -> Line:
    return Line(name, tuple(means), tuple(lows), tuple(highs))


@cache
def plotly() -> bytes | None:
    """Plotly's JavaScript, compressed; `None` if plotly is not installed."""
    return None if plotly_version() is None else gzip.compress(_script(), 6, mtime=0)


@cache
def plotly_styles() -> tuple[str, ...]:
    """The ids of the styles that plotly's script puts into a page, which allows none, unless it has them: of maps."""
    return tuple(dict.fromkeys(id.decode() for id in _STYLE.findall(_script())))


def _script() -> bytes:
    return (files("plotly") / "package_data" / "plotly.min.js").read_bytes()


@cache
def plotly_version() -> str | None:
    """The version of plotly; `None` if it is not installed."""
    try:
        return version("plotly")
    except PackageNotFoundError:
        return None
