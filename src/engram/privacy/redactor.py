"""Replace secrets and personal data in text by typed placeholders.

A secret becomes `[secret:<rule>]`, personal data `[personal:<rule>]`. With a key, eight hexadecimal digits follow that
are equal for equal values: `[secret:github-token:1f0c92ab]`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from engram.errors import InvalidInput
from engram.model import Clean
from engram.ports import Cleaned, Redactor
from engram.privacy.detectors import Detector, spans_of
from engram.privacy.policy import RedactionPolicy, policy_of
from engram.privacy.rules import CODEC, Kind, RuleSet, Span, blank_placeholders, is_placeholder, merge_spans, rule_set

KEYED = "keyed-value"
"""The rule that recognises a secret by its key alone: `{"password": "hunter"}`."""

_KEYED = Kind(-1, "secret", KEYED)
_FINGERPRINT = 8


class SecretRedactor:
    """Removes keys, tokens, passwords and personal data from text, and leaves everything else unchanged.

    `rules` are files with more rules, `policy` says what to do with which kind, `key` makes equal values give equal
    placeholders, and `detectors` find what patterns cannot.
    """

    def __init__(
        self,
        *,
        rules: Sequence[Path] = (),
        policy: RedactionPolicy | Mapping[str, str] | None = None,
        key: bytes | Callable[[], bytes | None] | None = None,
        detectors: Sequence[Detector] = (),
    ) -> None:
        self._rules = rule_set()
        for path in rules:
            self._rules = self._rules.with_file(path)
        self._detectors = tuple(detectors)
        self._policy = policy if isinstance(policy, RedactionPolicy) else self._read_policy(policy or {})
        self._key_source = key
        ranks = (rule.kind for rule in self._rules.rules)
        self._kept = frozenset(kind.rank for kind in ranks if self._policy.of(kind) == "keep")

    @property
    def names(self) -> tuple[str, ...]:
        """Names a policy can use: families, groups and rules."""
        return policy_names(self._rules)

    def clean(self, texts: Sequence[str]) -> list[Cleaned]:
        """Return one result per text, in order. Cleaning twice changes and finds nothing more.

        Raises `InvalidInput` if a text contains something the policy rejects.
        """
        find = self._find_with_detectors if self._detectors else self._rules.find
        cleaned = []
        for text in texts:
            data, found = text.encode(*CODEC), dict[str, None]()
            # Repeat until nothing is found, so that cleaning twice equals cleaning once.
            # This terminates: every round leaves fewer bytes outside placeholders.
            while spans := find(data, self._kept):
                data = self._replace(data, spans)
                found |= dict.fromkeys(span.kind.label for span in spans)
            cleaned.append(Cleaned(Clean(data.decode(*CODEC) if found else text), tuple(found)))
        return cleaned

    @cached_property
    def _key(self) -> bytes | None:
        """The key of fingerprints in placeholders, fetched from the database when first needed."""
        return self._key_source() if callable(self._key_source) else self._key_source

    def clean_keyed(self, key: str, value: str) -> Cleaned | None:
        """Return the replacement of a value that is sensitive because of its key; `None` if it is not."""
        if self._rules.is_secret_by_key(key, value) and self._policy.of(_KEYED) != "keep":
            # A more specific rule may match the whole value.
            (cleaned,) = self.clean([value])
            if is_placeholder(cleaned.text):
                return cleaned
            return Cleaned(Clean(self._placeholder(_KEYED, value.strip().encode(*CODEC))), (KEYED,))
        name, secret = key.replace("_", " ").encode(*CODEC), value.strip().encode(*CODEC)
        text = b"%b: %b" % (name, secret)
        for rule in self._rules.keyed:
            if rule.kind.rank not in self._kept and (len(name) + 2, len(text)) in rule.find(text):
                return Cleaned(Clean(self._placeholder(rule.kind, secret)), (rule.kind.label,))
        return None

    def _read_policy(self, given: Mapping[str, str]) -> RedactionPolicy:
        # The names a detector reports are unknown here.
        return policy_of(given, None if self._detectors else policy_names(self._rules))

    def _replace(self, data: bytes, spans: Sequence[Span]) -> bytes:
        """Return the data with a placeholder for each span."""
        parts, at = [], 0
        for span in spans:
            parts += [data[at : span.start], self._placeholder(span.kind, data[span.start : span.end]).encode()]
            at = span.end
        return b"".join([*parts, data[at:]])

    def _find_with_detectors(self, data: bytes, kept: frozenset[int]) -> list[Span]:
        """Return the findings of the rules and of the detectors, left to right, without overlaps."""
        view = blank_placeholders(data)
        text, rank = view.decode(*CODEC), len(self._rules.rules)
        spans = [s for detector in self._detectors for s in spans_of(detector.find(text), text, rank)]
        # Of a finding that overlaps a placeholder, only the parts outside are redacted.
        outside = [
            piece
            for span in spans
            if self._policy.of(span.kind) != "keep"
            for piece in _outside_placeholders(span, view, data)
        ]
        found = [span for span in outside if span.start < span.end]
        return merge_spans([*self._rules.find(data, kept), *found])

    def _placeholder(self, kind: Kind, value: bytes) -> str:
        """Return the placeholder of a value. Raises `InvalidInput` if the policy rejects it."""
        action = self._policy.of(kind)
        if action == "reject":
            raise InvalidInput(f"the text holds sensitive data ({kind.label}), which the policy rejects; take it out")
        if action == "drop" or (key := self._key) is None:
            return f"[{kind.family}:{kind.name}]"
        return f"[{kind.family}:{kind.name}:{fingerprint(key, kind.normal, value)}]"


@cache
def default_redactor() -> SecretRedactor:
    """Return the redactor with the rules that ship with Engram."""
    return SecretRedactor()


def refuse_secret(redactor: Redactor | None, name: str, what: str) -> None:
    """Raise `InvalidInput` for a user-supplied name that contains a secret; personal data is allowed in names.

    `what` is the name in words, such as "the name of this group". Without a redactor, the default one is used.
    """
    if (redactor or default_redactor()).clean([name])[0].secrets:
        raise InvalidInput(f"{what} holds a secret; give another one")


def policy_names(rules: RuleSet) -> tuple[str, ...]:
    """Return the names a policy can use: families, groups and rules."""
    kinds = [rule.kind for rule in rules.rules]
    ordered = ["secret", "personal", *(k.group for k in kinds if k.group), *(k.name for k in kinds), KEYED]
    return tuple(dict.fromkeys(ordered))


def fingerprint(key: bytes, normal: str, value: bytes) -> str:
    """Return eight hexadecimal digits, equal for equal values, that reveal nothing without the key."""
    if normal == "digits":
        value = bytes(byte for byte in value if 48 <= byte <= 57)
    elif normal == "alnum":
        value = bytes(byte for byte in value.upper() if chr(byte).isalnum())
    elif normal == "lower":
        value = value.lower()
    digest = hmac.digest(key, b"engram redaction\x00" + value, "sha256")
    # It begins with a letter, so that it is not read as a number.
    return "abcdef"[digest[-1] % 6] + digest.hex()[: _FINGERPRINT - 1]


def _outside_placeholders(span: Span, view: bytes, data: bytes) -> list[Span]:
    """Return the parts of a span that are not in a placeholder."""
    pieces, start = [], span.start
    for at in range(span.start, span.end + 1):
        if at == span.end or view[at] != data[at]:
            if start < at:
                pieces.append(Span(start, at, span.kind))
            start = at + 1
    return [piece for piece in pieces if not data[piece.start : piece.end].isspace()]
