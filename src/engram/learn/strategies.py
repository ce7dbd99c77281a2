"""What a failure is called, and how it can be prevented: names and checks, from what happened and what solved it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.model.failure import FailurePattern, PreventionCheck, Solution
from engram.words import STOP_WORDS, digest

LONGEST_NAME = 60
SHOWN = 3
_WORD = re.compile(r"[a-z][a-z0-9]*")
_MASK = re.compile(r"<[^<>]{0,12}>")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIX = re.compile(r"(?:Error|Exception|Warning|Failure)$")
_CAUSES = (
    ("timed out", "timeout"),
    ("timeout", "timeout"),
    ("permission denied", "permission-denied"),
    ("access denied", "access-denied"),
    ("connection refused", "connection-refused"),
    ("connection reset", "connection-reset"),
    ("rate limit", "rate-limit"),
    ("too many requests", "rate-limit"),
    ("out of memory", "out-of-memory"),
    ("no space left", "disk-full"),
    ("already exists", "already-exists"),
    ("no such file", "no-such-file"),
    ("not found", "not-found"),
    ("unauthorized", "unauthorized"),
    ("conflict", "conflict"),
)
"""Phrases that say in short what went wrong, and how they are written in a name; the first that occurs is taken."""
_VERBS = frozenset(
    """add adjust apply change check clean clear confirm create decrease delete disable enable ensure fix increase
    install lower make open pin raise rebuild reduce refresh reinstall remove reset restart retry run set switch test
    update upgrade use validate verify wait warm""".split()
)
"""How the text of a solution begins, when it says what was done about something."""


def pattern_name(kind: str, message: str, head: Sequence[str]) -> str:
    """A short name for a failure, such as npm-install-timeout: what was done, then what went wrong."""
    lower = message.lower()
    cause = next((name for phrase, name in _CAUSES if phrase in lower), "")
    if not cause and kind:
        cause = _slug(_HUMP.sub(" ", _SUFFIX.sub("", kind.rpartition(".")[2]) or kind), 3)
    done = _slug(" ".join(head), 3)
    if not cause:
        said = [word for word in _telling(message) if word not in done.split("-")]
        cause = "-".join(said[: 3 if done else 5])
    return _joined(done, cause) or "failure"


def check_name(pattern: str, solutions: Sequence[Solution]) -> str:
    """A short name for a check, after the best solution: "clear the npm cache" gives verify-npm-cache-status."""
    best = next((solution for solution in solutions if solution.success_rate >= 0.5), None)
    words = _telling(best.text) if best else []
    if words and words[0] in _VERBS:
        words = words[1:]
    return _joined("verify", "-".join(words[:3]), "status") if words else _joined("verify", pattern)


def generate_prevention_strategies(pattern: FailurePattern) -> list[PreventionCheck]:
    """The check that a failure pattern suggests; none while there is neither an action nor a solution to speak of."""
    helpful = [solution for solution in pattern.known_solutions if solution.success_rate >= 0.5]
    if not helpful and not pattern.actions:
        return []
    check = PreventionCheck(
        id=check_id(pattern.pattern_id),
        name=check_name(pattern.name, pattern.known_solutions),
        pattern_id=pattern.pattern_id,
        verify=what_to_verify(pattern),
        rule=rule(pattern.actions, pattern.contexts, pattern.error_signature),
        created_at=pattern.last_seen,
    )
    return [check]


def check_id(pattern_id: str) -> str:
    """The id of the check that a pattern suggests by itself."""
    return "check-" + digest(pattern_id)[:16]


def what_to_verify(pattern: FailurePattern) -> str:
    """What to look after before the action, in a sentence."""
    helpful = [solution for solution in pattern.known_solutions if solution.success_rate >= 0.5][:SHOWN]
    if helpful:
        done = "; ".join(f"{one.text} (helped {one.helped:g} of {one.tried} times)" for one in helpful)
        return f"That this is done: {done}"
    times = "once" if pattern.occurrence_count == 1 else f"{pattern.occurrence_count} times"
    return f"That the cause of this is gone, which was seen {times}: {pattern.error_signature}"


def rule(actions: Sequence[str], contexts: Sequence[str], signature: str) -> str:
    """When a check speaks up, in words."""
    if not actions:
        return f"actions that are named in: {signature}"
    where = [f"“{context}”" for context in contexts if context][:SHOWN]
    place = f" in contexts like {' or '.join(where)}" if where else ""
    return f"actions like {' or '.join(f'“{action}”' for action in actions[:SHOWN])}{place}"


def _telling(text: str) -> list[str]:
    words = _WORD.findall(_MASK.sub(" ", text.lower()))
    return list(dict.fromkeys(word for word in words if word not in STOP_WORDS and len(word) > 1))


def _slug(text: str, most: int) -> str:
    return "-".join(_WORD.findall(_MASK.sub(" ", text.lower()))[:most])


def _joined(*parts: str) -> str:
    words = [word for part in parts for word in part.split("-") if word]
    once = [word for place, word in enumerate(words) if place == 0 or words[place - 1] != word]
    name = "-".join(once)
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME].rpartition("-")[0] or name[:LONGEST_NAME]
