"""Puts typed placeholders in the place of secrets and personal data.

A secret becomes `[secret:<rule>]`, personal data `[personal:<rule>]`. With a key, eight hexadecimal digits follow that
are the same for the same value: `[secret:github-token:1f0c92ab]`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from engram.errors import InvalidInput
from engram.model import Clean
from engram.ports import Cleaned
from engram.privacy.detectors import Detector, spans_of
from engram.privacy.policy import Policy, policy_of
from engram.privacy.rules import CODEC, Kind, RuleSet, Span, blanked, is_placeholder, merged, rule_set

KEYED = "keyed-value"
"""The rule that finds a secret by its key alone: `{"password": "hunter"}`."""

_KEYED = Kind(-1, "secret", KEYED)
_FINGERPRINT = 8


class SecretRedactor:
    """Takes keys, tokens, passwords and personal data out of text; everything around them stays as it was.

    `rules` are files of more rules, `policy` says what is done with which kind, `key` makes the same value give the
    same placeholder, and `detectors` find what patterns cannot.
    """

    def __init__(
        self,
        *,
        rules: Sequence[Path] = (),
        policy: Policy | Mapping[str, str] | None = None,
        key: bytes | Callable[[], bytes | None] | None = None,
        detectors: Sequence[Detector] = (),
    ) -> None:
        self._rules = rule_set()
        for path in rules:
            self._rules = self._rules.with_file(path)
        self._detectors = tuple(detectors)
        self._policy = policy if isinstance(policy, Policy) else self._read(policy or {})
        self._key_of = key
        ranks = (rule.kind for rule in self._rules.rules)
        self._kept = frozenset(kind.rank for kind in ranks if self._policy.of(kind) == "keep")

    @property
    def names(self) -> tuple[str, ...]:
        """What a policy can name: families, groups and rules."""
        return names(self._rules)

    def clean(self, texts: Sequence[str]) -> list[Cleaned]:
        """One answer per text, in order. Cleaning twice changes nothing more and finds nothing.

        Raises `InvalidInput` if a text holds what the policy rejects.
        """
        return [self._clean(text) for text in texts]

    @cached_property
    def _key(self) -> bytes | None:
        """What placeholders are told apart with; a database is asked for it when the first one is needed."""
        return self._key_of() if callable(self._key_of) else self._key_of

    def under(self, key: str, value: str) -> Cleaned | None:
        """What stands for a value because of the key it is under; None if the key does not tell."""
        if self._rules.gives_away(key, value) and self._policy.of(_KEYED) != "keep":
            # The rules may know better what it is, and then they have taken all of it.
            cleaned = self._clean(value)
            if is_placeholder(cleaned.text):
                return cleaned
            return Cleaned(Clean(self._placeholder(_KEYED, value.strip().encode(*CODEC))), (KEYED,))
        if (kind := self._rules.keyed(key, value, self._kept)) is not None:
            return Cleaned(Clean(self._placeholder(kind, value.strip().encode(*CODEC))), (kind.label,))
        return None

    def _read(self, given: Mapping[str, str]) -> Policy:
        # What a detector may find, only the detector knows.
        return policy_of(given, None if self._detectors else names(self._rules))

    def _clean(self, text: str) -> Cleaned:
        data = text.encode(*CODEC)
        found: dict[str, None] = {}
        # Until nothing is found, because that is what makes cleaning twice the same as cleaning once.
        # It ends: every round leaves fewer bytes outside placeholders.
        while spans := self._find(data):
            parts, at = [], 0
            for span in spans:
                found[span.kind.label] = None
                parts += [data[at : span.start], self._placeholder(span.kind, data[span.start : span.end]).encode()]
                at = span.end
            data = b"".join([*parts, data[at:]])
        return Cleaned(Clean(data.decode(*CODEC) if found else text), tuple(found))

    def _find(self, data: bytes) -> list[Span]:
        spans = self._rules.find(data, self._kept)
        return merged([*spans, *self._detected(data)]) if self._detectors else spans

    def _detected(self, data: bytes) -> list[Span]:
        view = blanked(data)
        text, rank = view.decode(*CODEC), len(self._rules.rules)
        spans = [s for detector in self._detectors for s in spans_of(detector.find(text), text, rank)]
        # A find that reaches into a placeholder keeps what lies outside of it.
        outside = [
            piece for span in spans if self._policy.of(span.kind) != "keep" for piece in _outside(span, view, data)
        ]
        return [span for span in outside if span.start < span.end]

    def _placeholder(self, kind: Kind, value: bytes) -> str:
        """What stands in the place of a value. Raises `InvalidInput` if the policy rejects it."""
        action = self._policy.of(kind)
        if action == "reject":
            raise InvalidInput(f"the text holds sensitive data ({kind.label}), which the policy rejects; take it out")
        if action == "drop" or (key := self._key) is None:
            return f"[{kind.family}:{kind.name}]"
        return f"[{kind.family}:{kind.name}:{fingerprint(key, kind.normal, value)}]"


def names(rules: RuleSet) -> tuple[str, ...]:
    """What a policy can name: families, groups and rules."""
    kinds = [rule.kind for rule in rules.rules]
    ordered = ["secret", "personal", *(k.group for k in kinds if k.group), *(k.name for k in kinds), KEYED]
    return tuple(dict.fromkeys(ordered))


def fingerprint(key: bytes, normal: str, value: bytes) -> str:
    """Eight hexadecimal digits that tell equal values, and to nobody without the key anything else."""
    if normal == "digits":
        value = bytes(byte for byte in value if 48 <= byte <= 57)
    elif normal == "alnum":
        value = bytes(byte for byte in value.upper() if chr(byte).isalnum())
    elif normal == "lower":
        value = value.lower()
    digest = hmac.digest(key, b"engram redaction\x00" + value, "sha256")
    # A letter comes first, so that nobody takes it for a number.
    return "abcdef"[digest[-1] % 6] + digest.hex()[: _FINGERPRINT - 1]


def _outside(span: Span, view: bytes, data: bytes) -> list[Span]:
    """The parts of a span that are not in a placeholder."""
    pieces, start = [], span.start
    for at in range(span.start, span.end + 1):
        if at == span.end or view[at] != data[at]:
            if start < at:
                pieces.append(Span(start, at, span.kind))
            start = at + 1
    return [piece for piece in pieces if not data[piece.start : piece.end].isspace()]
