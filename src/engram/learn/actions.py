"""What an action and its context are made of, with the parts that change from time to time masked.

An action is free text: a command line, a tool call, or a phrase. What it does (a program and its subcommand, the name
of a tool, the first words of a phrase) is its head; two actions with different heads are different actions.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from engram.words import STOP_WORDS, digest, index_terms, normal_form

MOST_CHARACTERS = 2000
MOST_WORDS = 48
MOST_LETTERS = 64
WRAPPERS = frozenset({"sudo", "env", "time", "nohup", "exec", "command", "then"})
"""Programs that run another one; that one is what the action does."""

_CALL = re.compile(r"([A-Za-z_][\w.:/-]{0,99})\s?\(")
_ARGUMENT = re.compile(r"[(,{]\s?[\"']?([A-Za-z_]\w{0,63})[\"']?\s?[=:]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,63}=")
_LEAVING = re.compile(r"\s*cd\s[^&;|]{0,500}(?:&&|;)")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z+_-]*")
_SUBJECT = ("command", "cmd", "tool", "name", "action", "function")


@dataclass(frozen=True, slots=True)
class Action:
    """What is done: `head` says what, `rest` how; `key` stays the same when values change, `exact` does not."""

    head: tuple[str, ...]
    rest: frozenset[str]
    key: str
    exact: str


@dataclass(frozen=True, slots=True)
class Context:
    """Where it is done: the telling words and the features, such as "env=ci"; `key` is the same if both are."""

    words: frozenset[str]
    features: frozenset[str]
    key: str
    numbers: frozenset[str]
    weight: float


@lru_cache(maxsize=8192)
def action(text: str) -> Action:
    """The action in a text; every text is one, and the empty text is the empty action."""
    text = text[:MOST_CHARACTERS].strip()
    exact = digest(normal_form(text))[:12]
    head, rest = _json_call(text) or _call(text) or _line(text)
    head = head or ((exact,) if text else ())
    key = " ".join((*head, "|", *sorted(rest))) if head else ""
    return Action(head, rest, key, exact)


@lru_cache(maxsize=8192)
def context(text: str, features: frozenset[str] = frozenset(), environment: str = "") -> Context:
    """The context in a text, features and the name of the environment; word order and long numbers do not matter."""
    terms = [term for term in index_terms(text[:MOST_CHARACTERS]) if term not in STOP_WORDS and not _passing(term)]
    words = frozenset(list(dict.fromkeys(terms))[:MOST_WORDS])
    named = {f"env={normal_form(environment)}"} if environment.strip() else set()
    return place(words, frozenset(normal_form(feature) for feature in features) | named)


def place(words: frozenset[str], features: frozenset[str]) -> Context:
    """The context of these words and features, as they are; a number tells half as much as a word."""
    key = " ".join((*sorted(words), "|", *sorted(features))) if words or features else ""
    numbers = frozenset(word for word in words if word[-1].isdigit())
    return Context(words, features, key, numbers, len(words) - len(numbers) / 2)


def same_action(one: Action, other: Action) -> float:
    """How much two actions are the same, 0 to 1: 1 for the same but for values, 0 when they do different things."""
    if one.key == other.key:
        return 1.0
    if one.head != other.head:
        return 0.0
    shared = 2 * len(one.head) + len(one.rest & other.rest)
    return shared / (shared + len(one.rest ^ other.rest))


def same_context(known: Context, asked: Context) -> float:
    """How much a known context is the one asked about, 0 to 1; a known failure without context may concern any."""
    if known.key == asked.key:
        return 1.0
    differing = 1.0
    if known.features and asked.features:
        names = {mark.partition("=")[0]: mark for mark in known.features}
        differing = 0.6 ** sum(1 for mark in asked.features if names.get(mark.partition("=")[0], mark) != mark)
    if not known.words or not asked.words:
        return 0.7 * differing
    shared = len(known.words & asked.words) - len(known.numbers & asked.numbers) / 2
    return shared / (known.weight + asked.weight - shared) * differing


def _passing(term: str) -> bool:
    """Whether a term is a number or an id that says nothing about the next time; a version stays."""
    if term.isdigit():
        return len(term) > 2
    return len(term) > 3 and any(character.isdigit() for character in term)


def _json_call(text: str) -> tuple[tuple[str, ...], frozenset[str]] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = next((value[key] for key in _SUBJECT if isinstance(value.get(key), str)), None)
    if name is None or name.startswith("{"):
        return None
    head, rest = _call(name) or _line(name)
    inner = next((one for one in value.values() if isinstance(one, dict)), {})
    return head, rest | {f"{key}=" for key in list(inner)[:MOST_WORDS]}


def _call(text: str) -> tuple[tuple[str, ...], frozenset[str]] | None:
    match = _CALL.match(text)
    if match is None:
        return None
    names = _ARGUMENT.findall(text, match.end() - 1)[:MOST_WORDS]
    return (match[1].lower(),), frozenset(f"{name.lower()}=" for name in names)


def _line(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    left = _LEAVING.match(text)
    parts = text[left.end() :].split() if left else text.split()
    if len(parts) == 1 and "/" not in parts[0]:
        parts = re.split(r"[-\s]+", parts[0])
    parts = parts[: 4 * MOST_WORDS]
    while len(parts) > 1 and (parts[0].lower() in WRAPPERS or _ASSIGNMENT.match(parts[0])):
        parts = parts[1:]
    head, rest = list[str](), list[str]()
    for place, part in enumerate(parts):
        word = _masked(part, first=not head)[:MOST_LETTERS]
        if not word:
            continue
        if not head:
            head.append(word)
        elif place and parts[place - 1] == "-m" and len(head) == 1:
            head.append(word.partition(".")[0])
        elif len(head) < 2 and not rest and _PLAIN.fullmatch(word) and word not in STOP_WORDS:
            head.append(word)
        elif word not in STOP_WORDS:
            rest.append(word)
    return tuple(head), frozenset(rest[:MOST_WORDS])


def _masked(part: str, *, first: bool) -> str:
    """A word of a line; what is a value there becomes a mark of its shape."""
    bare = part.strip("\"'`,;.!?").lower()
    if first:
        return bare.rpartition("/")[2] or bare
    if part.startswith("-") and len(bare) > 1:
        return bare.partition("=")[0]
    if _ASSIGNMENT.match(bare):
        return bare.partition("=")[0] + "="
    if "/" in bare or "\\" in bare:
        return "<path>"
    if part[:1] in "\"'`":
        return "<text>"
    if any(character.isdigit() for character in bare):
        return "<value>"
    if "." in bare:
        return "<file>"
    return bare
