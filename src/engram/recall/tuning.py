"""The multipliers in use, agent by agent: kept in the settings of the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field, ValidationError

from engram.model import Frozen
from engram.ports import Scope, Store
from engram.recall.learned_weights import LEAST, MOST, Multipliers
from engram.text.terms import digest

FRESH = timedelta(minutes=1)
"""For so long nobody asks whether another process has changed them."""
REMEMBERED = 10_000


class Tuned(Frozen):
    """What is kept about an agent's ranking."""

    multipliers: dict[str, Annotated[float, Field(ge=LEAST, le=MOST)]] = Field(default_factory=dict)


class Tuning:
    """What agents' credits have taught about ranking; read from the store once in a while."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Scope, tuple[datetime, Multipliers]] = {}

    def multipliers(self, scope: Scope, now: datetime) -> Multipliers:
        """What the agent's scores are multiplied by, part by part; a minute old at most."""
        read, known = self._known.get(scope, (None, {}))
        if read is not None and abs(now - read) < FRESH:
            return known
        return self._remember(scope, now, self.read(scope))

    def read(self, scope: Scope) -> Multipliers:
        """What the store says now; what it does not say, or nobody understands, leaves the defaults."""
        try:
            return Tuned.model_validate_json(self._store.setting(_name(scope)) or "{}").multipliers
        except ValidationError:
            return {}

    def adopt(self, scope: Scope, now: datetime, multipliers: Multipliers) -> None:
        """Use these from now on, in every process."""
        self._store.set_setting(_name(scope), Tuned(multipliers=dict(multipliers)).model_dump_json())
        self._remember(scope, now, multipliers)

    def _remember(self, scope: Scope, now: datetime, multipliers: Multipliers) -> Multipliers:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[scope] = (now, multipliers)
        return multipliers


def _name(scope: Scope) -> str:
    return "ranking:" + digest(scope.agent)
