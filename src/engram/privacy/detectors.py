"""The door for heavier detectors: a model of names and places, another scanner."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

from engram.privacy.rules import CODEC, Family, Kind, Span


class Finding(NamedTuple):
    """Characters from `start` up to `end` are a secret or a personal datum of this name."""

    start: int
    end: int
    name: str
    family: Family = "personal"


@runtime_checkable
class Detector(Protocol):
    """Finds what patterns cannot; packages register theirs in the entry-point group `engram.detectors`."""

    def find(self, text: str) -> Iterable[Finding]:
        """The finds in a text, in any order; they may overlap. The same text gives the same finds."""
        ...


def spans_of(findings: Iterable[Finding], text: str, rank: int) -> list[Span]:
    """The findings in bytes of the text; parts that lie outside it, or hold nothing but space, are left out."""
    result = []
    for finding in findings:
        start, end = max(0, finding.start), min(len(text), finding.end)
        inside = text[start:end]
        start, end = start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
        if start >= end:
            continue
        first = len(text[:start].encode(*CODEC))
        kind = Kind(rank, finding.family, placeholder_name(finding.name))
        result.append(Span(first, first + len(text[start:end].encode(*CODEC)), kind))
    return result


def placeholder_name(name: str) -> str:
    """A detector's name for something, as a placeholder can hold it: `PHONE_NUMBER` becomes `phone-number`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "other"
