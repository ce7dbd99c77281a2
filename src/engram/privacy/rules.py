"""Read and run redaction rules: patterns of secrets and personal data, prefiltered by keywords."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

import re2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engram.errors import ConfigError
from engram.model import describe_error
from engram.privacy.checks import CHECKS

Family = Literal["secret", "personal"]

# Lone surrogates are matched as they are and restored unchanged, so that
# unencodable text cannot hide a secret from a rule.
CODEC = ("utf-8", "surrogatepass")

_PLACEHOLDER = re2.compile(r"\[(?:secret|personal):[a-z0-9-]{1,40}(?::[0-9a-f]{8})?\]")
_RUN = re.compile(rb"[0-9A-Za-z_\x80-\xff]*")
_AUTOMATA = 8
_RETRY_BELOW = 256
_BEFORE, _BEHIND = 60, 30
_MAX_FILE = 1_000_000


class Kind(NamedTuple):
    """The kind of a finding; where findings overlap, the one of the lowest rank gives its name."""

    rank: int
    family: Family
    name: str
    group: str = ""
    normal: str = ""

    @property
    def label(self) -> str:
        """The displayed name: `github-token`, `personal:email`."""
        return self.name if self.family == "secret" else f"{self.family}:{self.name}"


class Span(NamedTuple):
    """A finding: its position in bytes, and its kind."""

    start: int
    end: int
    kind: Kind


class RuleDefinition(BaseModel):
    """One rule as written in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]{1,40}$")
    description: str = Field(min_length=1)
    family: Family = "secret"
    group: str = Field(default="", pattern=r"^[a-z0-9-]{0,40}$")
    keywords: tuple[str, ...] = Field(min_length=1)
    regex: str = Field(min_length=1)
    must: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    entropy: float = Field(default=0.0, ge=0, le=8)
    near: str = ""
    check: str = ""
    normal: Literal["", "lower", "digits", "alnum"] = ""
    keyed: bool = False
    finds: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


class RuleFile(BaseModel):
    """A file of rules; `harmless.always` are values that no rule matches."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: tuple[RuleDefinition, ...] = ()
    fragments: dict[str, str] = Field(default_factory=dict)
    harmless: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    telling: dict[Literal["key", "allow"], str] = Field(default_factory=dict)


class Rule:
    """One kind of secret or personal data; its patterns are compiled when first needed."""

    def __init__(self, entry: RuleDefinition, rank: int, fragments: Mapping[str, str], lists: Mapping[str, str]):
        self.id, self.description, self.keyed = entry.id, entry.description, entry.keyed
        self.kind = Kind(rank, entry.family, entry.id, entry.group, entry.normal)
        self.keywords = f"(?i:{alternation(entry.keywords)})"
        self.regex = expand_fragments(entry.regex, fragments)
        self.finds, self.leaves = entry.finds, entry.leaves
        self._entropy, self._must, self._near = entry.entropy, entry.must, entry.near
        self._check = CHECKS[entry.check] if entry.check else None
        self._allow = alternation([lists["always"], *(lists.get(name, name) for name in entry.allow)])

    @cached_property
    def _patterns(self) -> tuple[Any, range, list[Any], Any, Any]:
        pattern = re2.compile(self.regex)
        groups = range(1, pattern.groups + 1)
        near = re2.compile(self._near) if self._near else None
        return pattern, groups, [re2.compile(p) for p in self._must], re2.compile(self._allow), near

    def compile(self) -> None:
        """Compile now. Raises `re2.error` for an invalid pattern."""
        re2.compile(self.keywords)
        _ = self._patterns

    def find(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield the positions of findings of this kind, left to right."""
        pattern, groups, must, allow, near = self._patterns
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
                and (near is None or near.search(_around(text, start, end)) is not None)
                and (span := self._check(text, start, end) if self._check else (start, end)) is not None
            ):
                yield span
                at = max(span[1], at + 1)
            elif self._check:
                # Part of a rejected word or number is not a candidate.
                run = _RUN.match(text, start, end)
                at = max(run.end() if run else start, at + 1)
            else:
                # A rejected value may be the key of the next one: `password: token: …`. Only for
                # short ones, to stay linear.
                at = max(start if end - start < _RETRY_BELOW else end, at + 1)


def _prefilter(rules: Sequence[Rule]) -> list[tuple[list[int], Any]]:
    """Return automata that find the rules worth running in a few passes over a text, each with the ranks of its rules.

    Numeric keywords are spread over several automata: in one, they combine in so many ways that a text of only digits
    would take a second for every few kilobytes.
    """
    numbers = [rank for rank, rule in enumerate(rules) if "0-9" in rule.keywords]
    words = [rank for rank, rule in enumerate(rules) if "0-9" not in rule.keywords]
    parts = [part for part in (words, *(numbers[start::_AUTOMATA] for start in range(_AUTOMATA))) if part]
    return [(part, _automaton([rules[rank].keywords for rank in part])) for part in parts]


def _automaton(patterns: Sequence[str]) -> Any:
    options = re2.Options()
    options.max_mem = 64 << 20  # a set that runs out of memory would silently match nothing
    automaton = re2.Set.SearchSet(options)
    for pattern in patterns:
        automaton.Add(pattern)
    automaton.Compile()
    return automaton


class RuleSet:
    """All rules, with a prefilter that finds those worth running."""

    def __init__(self, parts: Sequence[RuleFile]):
        self._parts = tuple(parts)
        fragments = {name: text for part in parts for name, text in part.fragments.items()}
        named = [name for part in parts for name in part.harmless]
        lists = {name: alternation([p for part in parts for p in part.harmless.get(name, ())]) for name in named}
        entries = [entry for part in parts for entry in part.rule]
        self.rules = [Rule(entry, rank, fragments, lists) for rank, entry in enumerate(entries)]
        telling = {name: text for part in reversed(parts) for name, text in part.telling.items()}
        self._harmless = re2.compile(lists["always"])
        self._telling = re2.compile(expand_fragments(telling["key"], fragments))
        self._untelling = re2.compile(telling["allow"])
        self.keyed = [rule for rule in self.rules if rule.keyed]
        """The rules that can recognise a value by its key, written as `key: value`."""
        self._prefilter = _prefilter(self.rules)

    def with_file(self, path: Path) -> RuleSet:
        """Return these rules plus those of a TOML file, which come first. Raises `ConfigError` if it is unusable."""
        part = read_rules(path)
        if part.fragments or part.telling or set(part.harmless) - {"always"}:
            raise ConfigError(f"{path}: only [[rule]] and harmless.always can be added; take the rest out")
        for entry in part.rule:
            if entry.check and entry.check not in CHECKS:
                raise ConfigError(
                    f"{path}: rule {entry.id}: there is no check {entry.check!r}; there are: {', '.join(CHECKS)}"
                )
        try:
            for pattern in part.harmless.get("always", ()):
                re2.compile(pattern)
            larger = RuleSet([part, *self._parts])
            for rule in larger.rules[: len(part.rule)]:
                rule.compile()
        except re2.error as error:
            raise ConfigError(f"{path}: {_message(error)}; patterns are RE2, without look-around") from None
        for rule in larger.rules[: len(part.rule)]:
            larger.check_examples(rule, path)
        return larger

    def check_examples(self, rule: Rule, path: Path | str) -> None:
        """Raise `ConfigError` unless the rule finds something in its `finds` and nothing in its `leaves`."""
        others = frozenset(range(len(self.rules))) - {rule.kind.rank}
        for text in rule.finds:
            if not self.find(text.encode(*CODEC), others):
                raise ConfigError(f"{path}: rule {rule.id} finds nothing in {text!r}; correct it or its keywords")
        for text in rule.leaves:
            if self.find(text.encode(*CODEC), others):
                raise ConfigError(f"{path}: rule {rule.id} finds something in {text!r}; correct it")

    def find(self, text: bytes, kept: frozenset[int] = frozenset()) -> list[Span]:
        """Return the findings in a text, left to right, without overlaps; placeholders are skipped.

        Rules whose ranks are in `kept` are not run.
        """
        view = blank_placeholders(text) if b"[secret:" in text or b"[personal:" in text else text
        ranks = {part[index] for part, automaton in self._prefilter for index in automaton.Match(view) or ()}
        rules = [self.rules[rank] for rank in sorted(ranks - kept)]
        spans = [Span(start, end, rule.kind) for rule in rules for start, end in rule.find(view)]
        return merge_spans(spans) if spans else []

    def is_secret_by_key(self, key: str, value: str) -> bool:
        """Return whether a value is secret because of its key."""
        secret = value.strip().encode(*CODEC)
        return (
            bool(secret)
            and self._telling.search(key.encode(*CODEC)) is not None
            and self._untelling.search(f"{key}={value}".encode(*CODEC)) is None
            and not is_placeholder(value)
            and self._harmless.search(secret) is None
        )


@cache
def rule_set() -> RuleSet:
    """Return the rules that ship with Engram, read once."""
    folder = files(__package__)
    texts = [folder.joinpath(name).read_text("utf-8") for name in ("rules.toml", "personal.toml")]
    return RuleSet([RuleFile.model_validate(tomllib.loads(text)) for text in texts])


def read_rules(path: Path) -> RuleFile:
    """Read the rules of a TOML file. Raises `ConfigError` if it is unreadable or has other content."""
    try:
        if path.stat().st_size > _MAX_FILE:
            raise ConfigError(f"{path} is larger than {_MAX_FILE:,} bytes; give a smaller file of rules")
        return RuleFile.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give another file of rules") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML ({error}); correct it") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe_error(error)}; see docs/redaction.md for what a rule has") from None


def entropy(secret: bytes) -> float:
    """Return the Shannon entropy in bits per byte."""
    total = len(secret)
    return -sum(n / total * math.log2(n / total) for n in Counter(secret).values())


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans left to right; overlapping ones become one, named by the most specific rule."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start < result[-1].end:
            last = result.pop()
            span = Span(last.start, max(last.end, span.end), min(last.kind, span.kind))  # noqa: PLW2901
        result.append(span)
    return result


def alternation(patterns: Sequence[str]) -> str:
    """Return a pattern that matches if one of these does; each keeps its own flags."""
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def expand_fragments(regex: str, fragments: Mapping[str, str]) -> str:
    """Replace `{{names}}` in a pattern by the fragments with these names."""
    for name, text in fragments.items():
        regex = regex.replace("{{" + name + "}}", text)
    return regex


def is_placeholder(text: str) -> bool:
    """Return whether the text is a placeholder and nothing else."""
    return _PLACEHOLDER.fullmatch(text.strip().encode(*CODEC)) is not None


def blank_placeholders(text: bytes) -> bytes:
    """Replace placeholders by line ends, because no rule matches across several of them."""
    blank: bytes = _PLACEHOLDER.sub(_newlines, text)
    return blank


def _around(text: bytes, start: int, end: int) -> bytes:
    return text[max(0, start - _BEFORE) : start] + b"\x00" + text[end : end + _BEHIND]


def _newlines(match: Any) -> bytes:
    length: int = match.end() - match.start()
    return b"\n" * length


def _message(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
