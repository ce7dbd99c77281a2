"""The interface for other detectors of sensitive data, such as a model that recognises names and places."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

from engram.privacy.rules import CODEC, Family, Kind, Span


class Finding(NamedTuple):
    """Characters from `start` up to `end` are a secret or personal data; `name` says which kind."""

    start: int
    end: int
    name: str
    family: Family = "personal"


@runtime_checkable
class Detector(Protocol):
    """Finds what patterns cannot; packages register theirs in the entry-point group `engram.detectors`."""

    def find(self, text: str) -> Iterable[Finding]:
        """Return the findings in a text, in any order; they may overlap. The same text must give the same findings."""
        ...


def spans_of(findings: Iterable[Finding], text: str, rank: int) -> list[Span]:
    """Return the findings as byte spans; parts outside the text, or with only white space, are dropped."""
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
    """Return a detector's name in the form used in placeholders: `PHONE_NUMBER` becomes `phone-number`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "other"
