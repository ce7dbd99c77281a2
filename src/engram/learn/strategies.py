"""What a failure is called, and how it can be prevented: names and checks, from what happened and what solved it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from engram.learn import actions
from engram.model.failure import FailurePattern, PreventionCheck, Solution
from engram.words import STOP_WORDS, digest

LONGEST_NAME = 60
LONGEST_QUOTE = 160
ANY_STAGE = "development"
"""The stage of a check of which it is not known where its failures happened."""
_STAGES = {
    "production": frozenset({"live", "prod", "production"}),
    "staging": frozenset({"preprod", "preproduction", "preview", "qa", "stage", "staging", "uat"}),
    ANY_STAGE: frozenset({"build", "ci", "dev", "development", "laptop", "local", "test", "tests"}),
}
STAGES = frozenset(_STAGES)
"""The stages that are derived from where failures happened."""
SHOWN = 3
_WORD = re.compile(r"[a-z][a-z0-9]*")
_MASK = re.compile(r"<[^<>]{0,12}>")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIX = re.compile(r"(?:Error|Exception|Warning|Failure)$")
_CAUSES = (
    ("timed out", "timeout"),
    ("timeout", "timeout"),
    ("etimedout", "timeout"),
    ("not authorized", "not-authorized"),
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
_LATER_CAUSES = frozenset({"etimedout", "not authorized"})
"""Those of them that earlier versions did not know."""
_SAYS_NOTHING = frozenset("cannot could err errno error exit failed failure fatal status".split())
"""Words of an error that name nothing."""
_VERBS = frozenset(
    """add adjust allow apply ask authenticate bump call change check clean clear close commit configure confirm copy
    create decrease delete disable downgrade drop enable ensure export fix free generate give grant increase install
    kill limit log lower make migrate move open pin pull purge push put raise rebase rebuild reconnect reduce refresh
    regenerate reinstall remove rename renew replace rerun reset restart restore retry roll rotate run scale set skip
    split start stop switch test trust turn unset update upgrade use validate verify wait warm write""".split()
)
"""How the text of a solution begins, when it says what was done about something."""


def pattern_name(kind: str, message: str, head: Sequence[str]) -> str:
    """Name a failure after its error: what it speaks of, then what went wrong.

    The action gives its name only to an error that speaks of it or of nothing: "timed out" during `npm install` is
    npm-install-timeout, "the database is locked" is database-locked whatever was done.
    """
    text = _HUMP.sub(" ", message).lower()
    phrase, cause = next(((phrase, name) for phrase, name in _CAUSES if phrase in text), ("", ""))
    class_ = "" if cause else _slug(_HUMP.sub(" ", _SUFFIX.sub("", kind.rpartition(".")[2]) or kind), 3)
    done = _slug(" ".join(head), 3).split("-")
    known = {*_SAYS_NOTHING, *cause.split("-"), *class_.split("-")}
    said = [word for word in _telling(text.replace(phrase or "\n", " ")) if word not in known]
    if said and kind.startswith("exit "):
        class_ = ""
    if done != [""] and (not said or set(done) & set(said)):
        rest = "-".join([word for word in said if word not in done][:3])
        return _joined("-".join(done), cause or class_ or rest) or "failure"
    return _joined(class_, "-".join(said[: 3 if cause or class_ else 5]), cause) or "failure"


def unexplained_name(head: Sequence[str]) -> str:
    """Name an action that failed without an error, so that it does not read like an approach that works."""
    return _joined(_slug(" ".join(head), 3), "failed")


def former_names(kind: str, message: str, heads: Iterable[str]) -> set[str]:
    """Give the names that earlier versions can have given a failure, after each action that it came with, or none.

    They put the action first, and left out what was said beside an exit status.
    """
    messages = (message, "") if kind.startswith("exit ") else (message,)
    return {_former_name(kind, one, _slug(head, 3)) for one in messages for head in ("", *heads)}


def _former_name(kind: str, message: str, done: str) -> str:
    lower = message.lower()
    cause = next((name for phrase, name in _CAUSES if phrase in lower and phrase not in _LATER_CAUSES), "")
    if not cause and kind:
        cause = _slug(_HUMP.sub(" ", _SUFFIX.sub("", kind.rpartition(".")[2]) or kind), 3)
    if not cause:
        said = [word for word in _telling(message) if word not in done.split("-")]
        cause = "-".join(said[: 3 if done else 5])
    return _joined(done, cause) or "failure"


def check_name(pattern: str, solution: str) -> str:
    """A short name for a check, after the best solution: "clear the npm cache" gives verify-npm-cache-status."""
    words = _telling(solution)
    if words and words[0] in _VERBS:
        words = words[1:]
    return _joined("verify", "-".join(words[:3]), "status") if words else pattern_check_name(pattern)


def pattern_check_name(pattern: str) -> str:
    """The name of a check after its pattern, whose name no other pattern has."""
    return _joined("verify", pattern)


def action_check_name(action: str) -> str:
    """The name of a check that was given an action of its own."""
    return _joined("verify", _slug(action, 4)) or "verify"


def generate_prevention_strategies(pattern: FailurePattern) -> list[PreventionCheck]:
    """Return the check that a failure pattern suggests; one that it has already is returned with what it measured.

    There is none while there is neither an action nor a solution to speak of.
    """
    known = [check for check in pattern.prevention_checks if check.id == check_id(pattern.pattern_id)]
    if known:
        return known
    helpful = [solution for solution in pattern.known_solutions if solution.success_rate >= 0.5]
    if not helpful and not pattern.actions:
        return []
    check = PreventionCheck(
        id=check_id(pattern.pattern_id),
        name=check_name(pattern.name, helpful[0].text if helpful else ""),
        pattern_id=pattern.pattern_id,
        verify=what_to_verify(pattern),
        rule=rule(pattern.actions, pattern.contexts, pattern.error_signature),
        stage=stage(pattern.environments, pattern.contexts),
        created_at=pattern.last_seen,
    )
    return [check]


def check_id(pattern_id: str) -> str:
    """The id of the check that a pattern suggests by itself."""
    return "check-" + digest(pattern_id)[:16]


def what_to_verify(pattern: FailurePattern) -> str:
    """What to do or look after before the action, in a sentence: what solved the failure, or else what is to be fixed.

    A solution that is worded as something to do is worded so here, too.
    """
    before = _before(pattern.actions)
    helpful = [solution for solution in pattern.known_solutions if solution.success_rate >= 0.5][:SHOWN]
    if helpful:
        first, *others = helpful
        also = "".join(f"; or {_lowered(one.text)} ({one.helped:g} of {one.tried})" for one in others)
        if next(iter(_WORD.findall(first.text.lower())), "") in _VERBS:
            return f"{_raised(_in_short(first.text))}{before and f' before {before}'}: that {_helped(first)}{also}"
        opening = f"Before {before}, remember" if before else "Remember"
        return f"{opening} what {_helped(first)}: {_in_short(first.text)}{also}"
    times = _times(pattern.occurrence_count)
    if before and _is_unexplained(pattern):
        return f"Find out why {before} failed {times} before it is tried again"
    opening = f"Before {before}, make sure" if before else "Make sure"
    return f"{opening} that this is fixed: {_in_short(pattern.error_signature)} (seen {times})"


def what_to_consider(action: str) -> str:
    """What a check says that was given an action, and no word about it."""
    return f"Make sure that it is safe to do this now: {_in_short(action)}"


def stage(*told: Sequence[str]) -> str:
    """The stage of the workflow that failures belong to, from texts about where they happened, the most telling first.

    What fails in continuous integration is verified in development, as is what fails nobody knows where.
    """
    for text in (text for texts in told for text in texts):
        words = {*_WORD.findall(text.lower())}
        for name, places in _STAGES.items():
            if words & places:
                return name
    return ANY_STAGE


def _before(texts: Sequence[str]) -> str:
    """The actions that failed, quoted; of several spellings of one, the first."""
    spelled = {actions.action(text).does: text for text in reversed(texts)}
    shown = [text for text in texts if text in spelled.values()][:SHOWN]
    return " or ".join(f"“{_in_short(text)}”" for text in shown)


def _is_unexplained(pattern: FailurePattern) -> bool:
    """Tell whether a failure came without an error."""
    signature = pattern.error_signature
    said = [unexplained(text, "") for text in pattern.actions]
    return any(signature == one or signature.startswith(f"{one} in ") for one in said)


def unexplained(action: str, context: str) -> str:
    """The signature of an action that failed without an error."""
    return f"{action} failed" + (f" in {context}" if context else "")


def _times(number: int) -> str:
    return f"{number} time" if number == 1 else f"{number} times"


def _helped(solution: Solution) -> str:
    if solution.tried == 1 and solution.helped == 1:
        return "helped the one time it was tried"
    return f"helped {solution.helped:g} of {_times(solution.tried)}"


def _in_short(text: str) -> str:
    one_line = " ".join(text.split()).rstrip(".")
    return one_line if len(one_line) <= LONGEST_QUOTE else one_line[: LONGEST_QUOTE - 1].rstrip() + "…"


def _raised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lowered(text: str) -> str:
    short = _in_short(text)
    return short if short[1:2].isupper() else short[:1].lower() + short[1:]


def rule(texts: Sequence[str], contexts: Sequence[str], signature: str) -> str:
    """When a check speaks up, in words."""
    if not texts:
        return f"actions that are named in: {signature}"
    where = [f"“{context}”" for context in contexts if context][:SHOWN]
    place = f" in contexts like {' or '.join(where)}" if where else ""
    return f"actions like {' or '.join(f'“{action}”' for action in texts[:SHOWN])}{place}"


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
