"""Find instructions aimed at an agent in text that others wrote, such as the result of a tool or a web page.

Every rule is a pattern with a score, and scores of rules that match close together add up. Text is normalised first:
look-alike letters, invisible characters and encoded payloads are undone. No list of rules is complete, so this decides
what is held for review, never what can be trusted.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import unquote

import re2

ENOUGH = 0.6
"""Sum of scores within `STRETCH` characters at which a text is an instruction."""

STRETCH = 600
"""Characters within which scores add up."""

HIDDEN = 0.4
"""The sum needed for encoded text, which ordinary text has no reason to contain."""


class Suspicion(NamedTuple):
    """One match of a rule: where it is, and its score."""

    rule: str
    start: int
    end: int
    score: float


def suspicions(text: str) -> tuple[Suspicion, ...]:
    """Return all matches in a text, in order of position, in linear time."""
    text = text if text.isascii() else _SURROGATES.sub("?", text)
    found = _find_in_plain(text)
    if not text.isascii():
        found += _find_invisible(text)
    known = frozenset(one.rule for one in found)
    found += [
        Suspicion("encoded", start, end, 1.0) for start, end, inner in _decoded(text) if _addresses_agent(inner, known)
    ]
    return tuple(sorted(set(found), key=lambda one: (one.start, one.end, one.rule)))


def is_instruction(text: str) -> bool:
    """Return whether a text contains what looks like an instruction to an agent."""
    return strength(suspicions(text)) >= ENOUGH


def any_instruction(texts: Iterable[str]) -> bool:
    """Return whether one of these texts, or all joined, looks like an instruction to an agent.

    Both are checked: an instruction may be spread over several texts, and an earlier text may seem to negate a later
    one.
    """
    said = [text for text in dict.fromkeys(texts) if text.strip()]
    return any(is_instruction(text) for text in said) or (len(said) > 1 and is_instruction("\n".join(said)))


def strength(found: Sequence[Suspicion], stretch: int = STRETCH) -> float:
    """Return the highest sum of scores within a stretch; each rule counts once per stretch."""
    best, first = 0.0, 0
    inside: dict[str, list[float]] = {}
    for one in found:  # in order of place
        inside.setdefault(one.rule, []).append(one.score)
        while one.start - found[first].start > stretch:
            left = inside[found[first].rule]
            left.pop(0)
            if not left:
                del inside[found[first].rule]
            first += 1
        best = max(best, sum(max(scores) for scores in inside.values()))
    return round(best, 6)


class _Rule(NamedTuple):
    name: str
    score: float
    trigger: str
    pattern: str


@cache
def _rules() -> tuple[_Rule, ...]:
    """Return the rules, those with a trigger first: the others only support them."""
    whole = tomllib.loads((files("engram.privacy") / "instructions.toml").read_text(encoding="utf-8"))
    rules = [
        _Rule(
            one["name"],
            one["score"],
            _with_flexible_spaces(one.get("trigger", "")),
            _expand_lists(one["pattern"], whole["lists"]),
        )
        for one in whole["rules"]
    ]
    return tuple(sorted(rules, key=lambda rule: not rule.trigger))


_SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs, which cannot be encoded."""

_INVISIBLE = frozenset("\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff\u00ad\u180e")
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"}
_LOOKS_LIKE = dict(
    zip(
        "аеорсухіѕјԁһӏвкмнтАЕОРСХІЅЈВКМНТαορνικτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "aeopcyxisjdhlbkmhtAEOPCXISJBKMHTaopviktABEZHIKMNOPTYX",
        strict=True,
    )
)
_WORD = re.compile(r"\w+")
_LATIN = re.compile("[A-Za-z]")
_ALIKE = re.compile("[\u0370-\u03ff\u0400-\u052f]")
"""Greek and Cyrillic, which have letters that look like Latin ones."""

_HIDDEN_CHARACTERS = (
    ("invisible", 0.5, re.compile("[A-Za-z][\u200b\u200c\u200d\u2060\u2062\u2063\u2064\ufeff]{1,20}[A-Za-z]")),
    ("invisible", 0.5, re.compile("[\u202d\u202e]")),
    ("invisible", 1.0, re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4}")),
    ("invisible", 1.0, re.compile("(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007e]{6}")),
)
_BASE64 = re2.compile(r"[A-Za-z0-9+/_-]{24,1000}={0,2}")
_HEX = re2.compile(r"(?:(?:\\x|0x|%)?[0-9a-fA-F]{2}[ ,:]?){16,250}")
_NO_HEX = re.compile(r"\\x|0x|[^0-9a-fA-F]")
_ESCAPED = re.compile(r"\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}")
_SPACED_OUT = re2.compile(r"\b(?:[A-Za-z][ .*_-]{1,3}){9,250}[A-Za-z]\b")
_APART = re.compile(r"[ .*_-]")
_WIDE = re.compile(r" {2,3}")
_LEET = re2.compile(
    r"\b[a-zA-Z]{0,12}[a-zA-Z][013457@$][a-zA-Z][a-zA-Z013457@$]{0,12}|\b[1!3][a-zA-Z][a-zA-Z013457@$]{3,12}\b"
)
_UNLEET = str.maketrans("0134578@$!", "oieastbasi")

_GAP = r"(?:[^\s.!?]+\W{1,3}){0,6}?"
_NEGATED = re2.compile(
    r"(?i)(?:n't|\bnot|\bnever|\bcannot|\bwithout|\bwho|\bwe|\bi|\bthey|\bpeople|\boften|\bno|не)\W{1,3}$"
)
_DENIABLE = frozenset({"override", "reveal", "secrecy"})
_NOT = re2.compile(r"(?i)\bnicht\b|\bniet\b")


@cache
def _trigger_set() -> Any:
    """Return the triggers of all rules as one set, to find the rules worth running in one pass."""
    whole = re2.Set.SearchSet(_options())
    for rule in _rules():
        if rule.trigger:
            whole.Add(rule.trigger)
    whole.Compile()
    return whole


@cache
def _pattern(number: int) -> Any:
    return re2.compile(_rules()[number].pattern, _options())


def _options() -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = 64 << 20
    return options


def _expand_lists(pattern: str, lists: Mapping[str, str]) -> str:
    for name, words in lists.items():
        pattern = pattern.replace("{" + name + "}", words)
    return _with_flexible_spaces(pattern).replace("~", _GAP)


def _with_flexible_spaces(pattern: str) -> str:
    """Make every space outside of a character class match anything between two words."""
    parts, in_class = [], False
    for place, sign in enumerate(pattern):
        escaped = place > 0 and pattern[place - 1] == "\\"
        if sign in "[]" and not escaped:
            in_class = sign == "["
        parts.append(r"(?:\W{1,4})" if sign == " " and not in_class else sign)
    return "".join(parts)


def _find_in_plain(text: str) -> list[Suspicion]:
    """Return the matches in a text with look-alike letters folded and invisible characters removed."""
    read, places = (text, None) if text.isascii() else _normalised(text)
    raw = read.encode()
    found = [one for number in _trigger_set().Match(raw) or () for one in _matches(number, raw)]
    if found:
        supporting = (number for number, rule in enumerate(_rules()) if not rule.trigger)
        found += [one for number in supporting for one in _matches(number, raw)]
    if places is None:
        return found
    return [Suspicion(one.rule, places[one.start], places[one.end], one.score) for one in found]


def _matches(number: int, raw: bytes) -> Iterator[Suspicion]:
    name, score = _rules()[number][:2]
    for match in _pattern(number).finditer(raw):
        start, end = match.span()
        if name in _DENIABLE and (_NEGATED.search(raw[max(0, start - 12) : start]) or _NOT.search(raw[start:end])):
            continue
        yield Suspicion(name, start, end, score)


def _normalised(text: str) -> tuple[str, list[int]]:
    """Return a text without invisible characters and with look-alikes folded, and the origin of each byte."""
    signs: list[str] = []
    places: list[int] = []
    words = (match for match in _WORD.finditer(text) if _ALIKE.search(match.group()) and _LATIN.search(match.group()))
    disguised = {place for match in words for place in range(*match.span())}
    for place, sign in enumerate(text):
        if sign in _INVISIBLE or _is_tag(sign):
            continue
        plain = sign
        if not sign.isascii():
            plain = _LOOKS_LIKE.get(sign, sign) if place in disguised else sign
            plain = _QUOTES.get(plain) or unicodedata.normalize("NFKC", plain)
        signs.append(plain)
        places += [place] * len(plain.encode())
    places.append(len(text))
    return "".join(signs), places


def _is_tag(sign: str) -> bool:
    """Return whether it is a tag character, which no font shows but a model reads."""
    return "\U000e0020" <= sign <= "\U000e007e"


def _find_invisible(text: str) -> Iterator[Suspicion]:
    """Yield what no reader sees: zero-width characters within words, direction overrides, runs of selectors."""
    for name, score, pattern in _HIDDEN_CHARACTERS:
        for match in pattern.finditer(text):
            yield Suspicion(name, match.start(), match.end(), score)


@cache
def _encoding_set() -> Any:
    """Return the signs of all encodings as one set, to recognise them in one pass."""
    whole = re2.Set.SearchSet(re2.Options())
    for pattern, _ in _DECODERS:
        whole.Add(pattern)
    whole.Compile()
    return whole


Payloads = Iterator[tuple[int, int, str]]
"""Position of each payload in a text, with its decoded text."""


def _decoded(text: str) -> Payloads:
    for way in _encoding_set().Match(text.encode()) or ():
        yield from _DECODERS[way][1](text)
    if not text.isascii() and (inner := "".join(chr(ord(sign) - 0xE0000) for sign in text if _is_tag(sign))):
        yield 0, len(text), inner


def _from_base64(text: str) -> Payloads:
    for match in _BASE64.finditer(text):
        cut = match.group().rstrip("=").replace("-", "+").replace("_", "/")
        cut = cut[: -1 if len(cut) % 4 == 1 else None]
        if (inner := _to_text(base64.b64decode(cut + "=" * (-len(cut) % 4)))) is not None:
            yield match.start(), match.end(), inner


def _from_hex(text: str) -> Payloads:
    for match in _HEX.finditer(text):
        digits = _NO_HEX.sub("", match.group())
        if (inner := _to_text(bytes.fromhex(digits[: len(digits) // 2 * 2]))) is not None:
            yield match.start(), match.end(), inner


def _from_escapes(text: str) -> Payloads:
    yield 0, len(text), _ESCAPED.sub(lambda match: chr(int(match.group()[2:], 16)), unquote(html.unescape(text)))


def _from_rot13(text: str) -> Payloads:
    yield 0, len(text), codecs.encode(text, "rot13")


def _from_reversed(text: str) -> Payloads:
    yield 0, len(text), text[::-1]


def _from_letters(text: str) -> Payloads:
    """Join letters written apart; two or more spaces separate words."""
    for match in _SPACED_OUT.finditer(text):
        yield match.start(), match.end(), " ".join(_APART.sub("", word) for word in _WIDE.split(match.group()))


def _from_digits(text: str) -> Payloads:
    if len(_LEET.findall(text)) > 1:
        yield 0, len(text), _LEET.sub(lambda match: match.group().translate(_UNLEET), text)


_DECODERS: tuple[tuple[str, Callable[[str], Payloads]], ...] = (
    (r"[A-Za-z0-9+/_-]{24}", _from_base64),
    (r"[0-9a-fA-F]{32}|(?:[0-9a-fA-F]{2}[ ,:]){16}|(?:\\x[0-9a-fA-F]{2}){16}|(?:0x[0-9a-fA-F]{2}[ ,]){16}", _from_hex),
    (r"&#|%20|\\u00|\\x", _from_escapes),
    (r"(?i)\b(?:vtaber|qvfertneq|sbetrg|vafgehpgvbaf?|cerivbhf|cebzcg|flfgrz|nffvfgnag)\b", _from_rot13),
    (r"(?i)snoitcurtsni|erongi|drager?sid|tpmorp metsys|tnatsissa", _from_reversed),
    (r"(?:\b\w[ .*_-]{1,3}){9}", _from_letters),
    (r"(?i)\b[a-z]{0,12}[a-z][013457@$][a-z]|\b[1!3][a-z][a-z013457@$]{3}", _from_digits),
)
"""Signs of an encoding, and how to decode it."""


def _addresses_agent(inner: str, known: frozenset[str]) -> bool:
    """Return whether decoded text addresses an agent, by rules that the plain text does not match."""
    found = sorted((one for one in _find_in_plain(inner) if one.rule not in known), key=lambda one: one.start)
    return strength(found) >= HIDDEN


def _to_text(raw: bytes) -> str | None:
    """Decode bytes as text; `None` if the result is not prose."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.count(" ") * 20 >= len(text) and text.replace("\n", " ").isprintable() else None
