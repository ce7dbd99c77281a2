"""Use Microsoft Presidio's analyzer as a detector of names, places and other personal data."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Protocol

from engram.errors import MissingExtra
from engram.privacy.detectors import Finding

NAMES = MappingProxyType(
    {
        "EMAIL_ADDRESS": "email",
        "PHONE_NUMBER": "phone",
        "CREDIT_CARD": "card",
        "IBAN_CODE": "iban",
        "IP_ADDRESS": "ip",
        "US_SSN": "us-ssn",
    }
)
"""Presidio's names for what our rules find as well, so that one policy applies to both."""


class Recognized(Protocol):
    """One result of the analyzer."""

    start: int
    end: int
    entity_type: str


class Analyzer(Protocol):
    """The method of `presidio_analyzer.AnalyzerEngine` that is used."""

    def analyze(
        self, text: str, language: str, entities: Sequence[str] | None = None, score_threshold: float | None = None
    ) -> Iterable[Recognized]:
        """Return the findings in a text."""
        ...


class PresidioDetector:
    """Runs an analyzer; findings below the threshold are dropped, because phone numbers and dates are often wrong."""

    def __init__(
        self,
        analyzer: Analyzer,
        *,
        language: str = "en",
        entities: Sequence[str] | None = ("PERSON", "LOCATION"),
        threshold: float = 0.6,
    ) -> None:
        self._analyzer, self._language, self._threshold = analyzer, language, threshold
        self._entities = None if entities is None else list(entities)

    def find(self, text: str) -> Iterator[Finding]:
        """Yield the findings in a text, under our names."""
        found = self._analyzer.analyze(
            text=text, language=self._language, entities=self._entities, score_threshold=self._threshold
        )
        for each in found:
            yield Finding(each.start, each.end, NAMES.get(each.entity_type, each.entity_type))


def open_detector() -> PresidioDetector:
    """Return a detector with Presidio's default analyzer, which loads its language model."""
    try:
        module = importlib.import_module("presidio_analyzer")
    except ImportError as error:
        raise MissingExtra("presidio-analyzer is not installed; pip install presidio-analyzer") from error
    return PresidioDetector(module.AnalyzerEngine())
