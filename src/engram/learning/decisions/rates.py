"""Count how often each action succeeded, by feature and day.

Counts are integers (quality in millionths), so that the order of recording does not matter and a correction leaves no
trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from engram.learning.decisions.belief import EVERYTHING, GroupTotals
from engram.text.terms import normal_form

_MILLION = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Days = dict[int, list[int]]
"""Maps days since 1970 to attempts and their quality in millionths."""


class Rates:
    """Attempts and their quality by feature, action and day."""

    def __init__(self) -> None:
        self._groups: defaultdict[str, defaultdict[str, Days]] = defaultdict(lambda: defaultdict(dict))

    def count(self, features: Iterable[str], action: str, at: datetime, quality: float, times: int = 1) -> None:
        """Count a decision for all its features; `times=-1` takes it back."""
        day, worth, key = day_of(at), round(quality * _MILLION), normal_form(action)
        for group in (EVERYTHING, *features):
            days = self._groups[group][key]
            attempts, total = days.get(day, [0, 0])
            days[day] = [attempts + times, total + times * worth]
            if days[day][0] == 0:
                del days[day]

    def tallies(
        self,
        features: Iterable[str],
        now: datetime,
        half_life: timedelta,
    ) -> dict[str, dict[str, GroupTotals]]:
        """Return the totals of each action for some features and for everything, with older days weighing less."""
        today, life = day_of(now), half_life / timedelta(days=1)
        found = {}
        for group in (EVERYTHING, *sorted(features)):
            found[group] = {
                action: _tally(days, today, life) for action, days in self._groups.get(group, {}).items() if days
            }
        return found

    def by_action(self) -> dict[str, tuple[int, float]]:
        """Return the attempts of each action, of any age, and the sum of their qualities."""
        return {
            action: (sum(n for n, _ in days.values()), sum(total for _, total in days.values()) / _MILLION)
            for action, days in self._groups.get(EVERYTHING, {}).items()
            if days
        }

    def pairs(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Return, for each feature and action, the attempts and the sum of their qualities, of any age."""
        return {
            (group, action): (
                float(sum(n for n, _ in days.values())),
                sum(total for _, total in days.values()) / _MILLION,
            )
            for group, actions in self._groups.items()
            for action, days in actions.items()
            if days
        }

    def dump(self) -> JsonValue:
        """Return the state as JSON, in an order that does not depend on the order of recording."""
        return [
            [group, action, day, *days[day]]
            for group, actions in sorted(self._groups.items())
            for action, days in sorted(actions.items())
            for day in sorted(days)
        ]

    @classmethod
    def load(cls, state: Iterable[tuple[str, str, int, int, int]]) -> Rates:
        """Restore from the output of `dump`."""
        rates = cls()
        for group, action, day, attempts, total in state:
            rates._groups[group][action][day] = [attempts, total]
        return rates


def day_of(at: datetime) -> int:
    """Return the number of a day since 1970, in UTC."""
    return (at - _EPOCH).days


def _tally(days: Days, today: int, half_life: float) -> GroupTotals:
    attempts = quality = 0.0
    for day, (n, total) in sorted(days.items()):
        weight = 0.5 ** (max(0, today - day) / half_life)
        attempts += weight * n
        quality += weight * total / _MILLION
    return GroupTotals(attempts, quality)
