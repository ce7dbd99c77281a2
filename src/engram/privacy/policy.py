"""Decide what to do with each kind of sensitive data: mask it, drop it, reject the text, or keep it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, cast, get_args

from engram.errors import ConfigError
from engram.privacy.rules import Kind

Action = Literal["mask", "drop", "reject", "keep"]


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """Actions by name of a rule, a group of rules, or a family; the most specific decides, the default is to mask."""

    actions: Mapping[str, Action] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", MappingProxyType(dict(self.actions)))

    def of(self, kind: Kind) -> Action:
        """Return the action for findings of this kind."""
        for name in (kind.name, kind.group, kind.family):
            if name in self.actions:
                return self.actions[name]
        return "mask"


def policy_of(given: Mapping[str, str], names: Collection[str] | None = None) -> RedactionPolicy:
    """Return the policy for a mapping of names to actions. Raises `ConfigError` for unknown actions or names."""
    for name, action in given.items():
        if action not in get_args(Action):
            raise ConfigError(f"{name}: there is no action {action!r}; there are: {', '.join(get_args(Action))}")
        if names is not None and name not in names:
            raise ConfigError(f"there is no kind of sensitive data called {name!r}; there are: {', '.join(names)}")
    return RedactionPolicy(cast("Mapping[str, Action]", given))
