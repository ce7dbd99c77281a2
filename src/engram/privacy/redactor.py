"""Finds secrets by pattern and puts a typed placeholder in their place: `[secret:<rule-id>]`."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

import re2

from engram.model import Clean
from engram.ports import Cleaned

# Text cannot carry a secret past a rule by being unstorable: lone surrogates are matched as they are,
# and come back as they were.
_CODEC = ("utf-8", "surrogatepass")

_PLACEHOLDER = re2.compile(r"\[secret:[a-z0-9-]{1,40}\]")
_RETRY_BELOW = 256


class Span(NamedTuple):
    """Where a secret is, in bytes, and the position of the rule that says so."""

    start: int
    end: int
    rule: int


class Rule:
    """One kind of secret; its patterns are compiled when first needed."""

    def __init__(self, entry: Mapping[str, Any], fragments: Mapping[str, str], always: str, **lists: str):
        self.id: str = entry["id"]
        self.description: str = entry["description"]
        self.keywords = f"(?i:{either(entry['keywords'])})"
        self.regex = expanded(entry["regex"], fragments)
        self._entropy: float = entry.get("entropy", 0.0)
        self._must: list[str] = entry.get("must", [])
        self._allow = either([always, *(lists.get(name, name) for name in entry.get("allow", []))])

    @cached_property
    def _patterns(self) -> tuple[Any, range, list[Any], Any]:
        pattern = re2.compile(self.regex)
        groups = range(1, pattern.groups + 1)
        return pattern, groups, [re2.compile(p) for p in self._must], re2.compile(self._allow)

    def find(self, text: bytes) -> Iterator[tuple[int, int]]:
        """The secrets of this kind, left to right."""
        pattern, groups, must, allow = self._patterns
        at = 0
        while (match := pattern.search(text, at)) is not None:
            group = next((g for g in groups if match.start(g) >= 0), 0)
            start, end = match.span(group)
            secret = text[start:end]
            if (
                not secret.isspace()
                and all(p.search(secret) for p in must)
                and (not self._entropy or entropy(secret) >= self._entropy)
                and not allow.search(secret)
            ):
                yield start, end
                at = max(end, at + 1)
            else:
                # What was no secret may be the name of the next one: `password: token: …`. Only for
                # short ones, so that the time stays linear.
                at = max(start if end - start < _RETRY_BELOW else end, at + 1)


class RuleSet:
    """All rules, and one automaton that says in a single pass which of them are worth running."""

    def __init__(self, data: Mapping[str, Any]):
        lists = {name: either(patterns) for name, patterns in data["harmless"].items()}
        self.rules = [Rule(entry, data["fragments"], **lists) for entry in data["rule"]]
        self._harmless = re2.compile(lists["always"])
        self._telling = re2.compile(expanded(data["telling"]["key"], data["fragments"]))
        self._untelling = re2.compile(data["telling"]["allow"])
        options = re2.Options()
        options.max_mem = 64 << 20  # a set that runs out of memory would silently match nothing
        self._prefilter = re2.Set.SearchSet(options)
        for rule in self.rules:
            self._prefilter.Add(rule.keywords)
        self._prefilter.Compile()

    def find(self, text: bytes) -> list[Span]:
        """The secrets in a text, left to right, none overlapping; placeholders are not looked into."""
        view = _PLACEHOLDER.sub(_blank, text) if b"[secret:" in text else text
        candidates = self._prefilter.Match(view)
        if not candidates:
            return []
        return merged(
            Span(start, end, rule) for rule in sorted(candidates) for start, end in self.rules[rule].find(view)
        )

    def gives_away(self, key: str, value: str) -> bool:
        """Whether a value is secret because of the key it stands under."""
        secret = value.strip().encode(*_CODEC)
        return (
            bool(secret)
            and self._telling.search(key.encode(*_CODEC)) is not None
            and self._untelling.search(f"{key}={value}".encode(*_CODEC)) is None
            and not self.is_placeholder(value)
            and self._harmless.search(secret) is None
        )

    def is_placeholder(self, text: str) -> bool:
        """Whether the text is a placeholder and nothing else."""
        return _PLACEHOLDER.fullmatch(text.strip().encode(*_CODEC)) is not None


class SecretRedactor:
    """Takes keys, tokens and passwords out of text; everything around them stays as it was."""

    def clean(self, texts: Sequence[str]) -> list[Cleaned]:
        """One answer per text, in order. Cleaning twice changes nothing more and finds nothing."""
        rules = rule_set()
        return [_clean(rules, text) for text in texts]


@cache
def rule_set() -> RuleSet:
    """The rules that ship with Engram, read once."""
    return RuleSet(tomllib.loads(files(__package__).joinpath("rules.toml").read_text("utf-8")))


def entropy(secret: bytes) -> float:
    """Shannon entropy in bits per byte."""
    total = len(secret)
    return -sum(n / total * math.log2(n / total) for n in Counter(secret).values())


def merged(spans: Iterator[Span]) -> list[Span]:
    """The spans left to right; those that overlap become one, named by the most specific rule."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start < result[-1].end:
            last = result.pop()
            span = Span(last.start, max(last.end, span.end), min(last.rule, span.rule))  # noqa: PLW2901
        result.append(span)
    return result


def either(patterns: Sequence[str]) -> str:
    """A pattern that matches where one of these does; the flags of each stay its own."""
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def expanded(regex: str, fragments: Mapping[str, str]) -> str:
    """The pattern with its `{{names}}` replaced by the fragments they stand for."""
    for name, text in fragments.items():
        regex = regex.replace("{{" + name + "}}", text)
    return regex


def placeholder(rule: str) -> str:
    """What stands in the place of a secret."""
    return f"[secret:{rule}]"


def _clean(rules: RuleSet, text: str) -> Cleaned:
    data = text.encode(*_CODEC)
    found: dict[str, None] = {}
    # Until nothing is found, because that is what makes cleaning twice the same as cleaning once.
    # It ends: every round leaves fewer bytes outside placeholders.
    while spans := rules.find(data):
        parts, at = [], 0
        for span in spans:
            rule = rules.rules[span.rule].id
            found[rule] = None
            parts += [data[at : span.start], placeholder(rule).encode()]
            at = span.end
        data = b"".join([*parts, data[at:]])
    return Cleaned(Clean(data.decode(*_CODEC) if found else text), tuple(found))


def _blank(match: Any) -> bytes:
    # Line ends, because no rule reads a value across several of them.
    length: int = match.end() - match.start()
    return b"\n" * length
