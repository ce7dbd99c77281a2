"""Evaluate how useful memory is to an agent, by period, and detect changes (seed 002's evaluation)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from engram.errors import InvalidInput
from engram.learning import events as happened
from engram.learning.decisions.comparisons import difference, scan, wilson
from engram.model.upkeep import Drift, EvaluationReport, EvaluationRow, Measure, Measures, Period
from engram.ports import Credit, CreditsRecalls, Event, KeepsEvents, Scope, Store
from engram.ports.completed import require

MAX_CREDITS = 100_000
PAGE = 2000
GOOD = 0.5
FALSE_ALARM_RATE = 0.05
"""Probability of reporting a change where there is none, over all measures."""
PERIODS: tuple[Period, ...] = ("day", "week", "month")


@dataclass(slots=True)
class _MeasureCounts:
    """Part and total of each measure."""

    pairs: dict[str, list[int]] = field(default_factory=lambda: {name: [0, 0] for name in Measures.model_fields})

    def count(self, name: str, some: int, all: int) -> None:
        pair = self.pairs[name]
        pair[0], pair[1] = pair[0] + some, pair[1] + all

    def measures(self) -> dict[str, Measure]:
        return {name: make_measure(some, all) for name, (some, all) in self.pairs.items()}


def evaluate(
    store: Store,
    scopes: Sequence[Scope],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    period: Period = "week",
) -> EvaluationReport:
    """Evaluate some agents together, from the outcomes of their recalls and decisions.

    `since` is inclusive, `until` exclusive. Periods without data have no row.
    """
    if period not in PERIODS:
        raise InvalidInput(f"a period is one of {', '.join(PERIODS)}, not {period!r}")
    require(store, CreditsRecalls, "evaluating recalls")
    require(store, KeepsEvents, "evaluating decisions")
    credits = [credit for scope in scopes for credit in store.credits(scope, MAX_CREDITS)]
    decisions = [each for scope in scopes for each in _decisions(store, scope)]
    credits = [credit for credit in credits if _within(credit.at, since, until)]
    decisions = [each for each in decisions if _within(each[0], since, until)]
    return report(tuple(scope.agent for scope in scopes), credits, decisions, period)


def report(
    agents: tuple[str, ...],
    credits: Iterable[Credit],
    decisions: Iterable[tuple[datetime, bool, float | None]],
    period: Period = "week",
) -> EvaluationReport:
    """Evaluate values: a decision is its time, whether memory informed it, and its quality, if known."""
    total, rows = _MeasureCounts(), defaultdict[datetime, _MeasureCounts](_MeasureCounts)
    for credit in credits:
        helped, looked = len(credit.helped), len(credit.helped | credit.hindered)
        for counts in (total, rows[period_start(credit.at, period)]):
            counts.count("retrieval_success", bool(helped), 1)
            counts.count("hit_ratio", helped, looked)
    for at, informed, quality in decisions:
        for counts in (total, rows[period_start(at, period)]):
            counts.count("informed", informed, 1)
            if quality is not None:
                counts.count("success", quality >= GOOD, 1)
    ordered = [
        EvaluationRow(start=start, end=period_end(start, period), **rows[start].measures()) for start in sorted(rows)
    ]
    drift = find_drifts(ordered)
    return EvaluationReport(
        agents=agents,
        period=period,
        total=Measures(**total.measures()),
        rows=tuple(ordered),
        drift=drift,
        drifted=any(each.drifted for each in drift),
    )


def make_measure(some: int, all: int) -> Measure:
    """Compute a share with its 95% interval."""
    if not all:
        return Measure(some=some, all=all)
    return Measure(some=some, all=all, share=some / all, interval=wilson(some, all))


def find_drifts(rows: Sequence[EvaluationRow]) -> tuple[Drift, ...]:
    """Find the clearest change of each measure that at least two periods have.

    The p-values are corrected for the number of moments examined and of measures.
    """
    having = {name: [row for row in rows if getattr(row, name).all] for name in Measures.model_fields}
    several = {name: found for name, found in having.items() if len(found) > 1}
    return tuple(_find_drift(name, found, len(several)) for name, found in several.items())


def _find_drift(name: str, rows: Sequence[EvaluationRow], measures: int) -> Drift:
    pairs = [(measure.some, measure.all) for row in rows if (measure := getattr(row, name))]
    change = scan([some for some, _ in pairs], [all for _, all in pairs], least=1)
    start, end = (change.start, change.end) if change else (1, len(rows))
    inside, outside = pairs[start:end], pairs[:start] + pairs[end:]
    first, last = (make_measure(*map(sum, zip(*several, strict=True))) for several in (outside, inside))
    doubt = {"doubt": change.doubt} if change else {}
    apart, interval = difference(first.some, first.all, last.some, last.all, **doubt)
    p = change.p if change else 1.0
    return Drift(
        measure=name,
        first=first,
        last=last,
        change=apart,
        p_value=p,
        drifted=p < FALSE_ALARM_RATE / measures,
        interval=interval,
        since=rows[start].start,
        until=None if end == len(rows) else rows[end - 1].end,
    )


def period_start(moment: datetime, period: Period) -> datetime:
    """Return the start of the period that contains a moment, in UTC."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "week":
        return day - timedelta(days=day.weekday()) if day.toordinal() > day.weekday() else day
    return day.replace(day=1) if period == "month" else day


def period_end(start: datetime, period: Period) -> datetime:
    """Return the end of the period that starts then."""
    latest = datetime.max.replace(tzinfo=UTC)
    if latest - start < timedelta(days=31):
        return latest
    if period == "month":
        return (start + timedelta(days=31)).replace(day=1)
    return start + timedelta(days=7 if period == "week" else 1)


def _decisions(store: KeepsEvents, scope: Scope) -> list[tuple[datetime, bool, float | None]]:
    """Read every decision of an agent: its time, whether it was informed, and its last outcome."""
    decided, last, verdicts, after = list[Event](), dict[str, Event](), dict[str, datetime](), 0
    while events := store.events_after(scope, after, PAGE):
        after = events[-1].seq
        decided += [event for event in events if event.kind == happened.DECISION]
        verdicts |= {event.id: event.at for event in events if event.kind == happened.CHECKED}
        _note_outcomes(last, events)
    return [
        (event.at, happened.informed(event, verdicts), happened.number(last.get(event.subject, event), "quality"))
        for event in decided
    ]


def _note_outcomes(last: dict[str, Event], events: Iterable[Event]) -> None:
    """Keep the latest outcome of each decision, by its number."""
    for event in events:
        if event.kind == happened.OUTCOME:
            before = last.get(event.subject)
            if before is None or (happened.number(event, "number") or 0) > (happened.number(before, "number") or 0):
                last[event.subject] = event


def _within(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)
