"""Name failure patterns, and name and word the prevention checks derived from them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from engram.learning.actions import parsing
from engram.learning.failures.variable_parts import REDACTED, error_text
from engram.model.failure import FailurePattern, PreventionCheck, Solution
from engram.text.terms import STOP_WORDS, digest

LONGEST_NAME = 60
LONGEST_QUOTE = 160
ANY_STAGE = "development"
"""The stage of a check whose failures happened in an unknown place."""
_STAGES = {
    "production": ("prod production", "live"),
    "staging": ("preprod preproduction qa staging uat", "preview stage"),
    ANY_STAGE: ("ci dev development", "build laptop local test tests"),
}
"""Words for each stage: those that always name a place, and those that often mean something else."""
STAGES = frozenset(_STAGES)
"""The stages that are derived from where failures happened."""
SHOWN = 3
LISTED = 10
"""Actions, contexts and environments listed per pattern at most, the most frequent first."""
_WORD = re.compile(r"[a-z][a-z0-9]*")
_PLACE = (
    "(?:(?:server|cluster|env|environment|database|db|system|site|host|node|machine|instance|namespace|account|stack"
    "|region|tier|deploy|deployment|release|rollout)s?)"
)
_TO = r"\b(?:in|on|to|into|onto|at|from|for|against|within|inside)\s+(?:(?:the|our|my|a|an|this|that|its)\s+)?"
_BEFORE_STAGING, _NO_PRODUCTION = re.compile(r"\bpre[- ](?=prod)"), re.compile(r"\bnon[- ]?prod\w*")
_MASK = re.compile(r"<[^<>]{0,12}>")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIX = re.compile(r"(?:Error|Exception|Warning|Failure)$")
_COUNT = re.compile(r"<num> [a-z]+,?")
_FAILED_COUNT = re.compile(r"<num> (?:failed|failing|failures?|errors?)\b")
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
"""Phrases that say what went wrong, and their form in a name; the first that occurs is used."""
_LATER_CAUSES = frozenset({"etimedout", "not authorized"})
"""Phrases that earlier versions did not know."""
_SAYS_NOTHING = frozenset("cannot could err errno error exit failed failure fatal status".split())
"""Words of an error that identify nothing."""
_WENT_WELL = frozenset("passed succeeded successfully".split())
_OF_EXIT = frozenset("command exited process".split())
_FIRST_CLAUSE = re.compile(r"[,;.:!](?=\s|$)|\s(?:and )?then\s|\s[-–—]\s|\n")
_NEGATION = re.compile(
    r"\b(?:\w*n[’']t|(?:do|does|did|must|should|ca|wo|is|are)nt|not?|never|neither|nor|cannot|avoid|without|refrain"
    r"|(?:stop|quit) \w+ing)\b",
    re.I,
)
"""Marks a clause that says not to do something."""
_VERBS = frozenset(
    """add adjust allow apply ask authenticate bump call change check clean clear close commit configure confirm copy
    create decrease delete disable downgrade drop enable ensure export fix free generate give grant increase install
    kill limit log lower make migrate move open pin pull purge push put raise rebase rebuild reconnect reduce refresh
    regenerate reinstall remove rename renew replace rerun reset restart restore retry roll rotate run scale set skip
    split start stop switch test trust turn unset update upgrade use validate verify wait warm write""".split()
)
"""First words of a solution that says what to do."""


def pattern_name(kind: str, message: str, head: Sequence[str]) -> str:
    """Name a failure pattern after its error: what it is about, then what went wrong.

    The action is part of the name only if the error mentions it or says nothing else: "timed out" during `npm install`
    is npm-install-timeout; "the database is locked" is database-locked after any action.
    """
    rest, cause = _cause(_HUMP.sub(" ", message).lower())
    status = "-".join(kind.split()) if kind.startswith("exit ") else ""
    class_ = "" if cause or status else _class_name(kind)
    done = _slug(" ".join(head), 3).split("-")
    known = {*_SAYS_NOTHING, *_WENT_WELL, *cause.split("-"), *class_.split("-"), *(_OF_EXIT if status else ())}
    said = [word for word in _telling(rest) if word not in known]
    if done != [""] and (not said or set(done) & set(said)):
        more = "-".join([word for word in said if word not in done][:3])
        return _joined("-".join(done), cause or status or _class_name(kind, alone=True) or more) or "failure"
    if not said and not cause:
        return _joined(status or _class_name(kind, alone=True)) or "failure"
    if len(said) == 1 and not kind and "fail" in rest:
        cause = cause or "failed"
    return _joined(class_, "-".join(said[: 3 if cause or class_ else 5]), cause or status) or "failure"


def _cause(text: str) -> tuple[str, str]:
    """Return the rest of a text and its cause as written in a name; the cause is empty if none is known."""
    if _FAILED_COUNT.search(text):
        return _COUNT.sub(" ", text), "failed"
    phrase, cause = next(((phrase, name) for phrase, name in _CAUSES if phrase in text), ("\n", ""))
    return text.replace(phrase, " "), cause


def _class_name(kind: str, *, alone: bool = False) -> str:
    """Return an error class as written in a name: without the word Error, unless the class is all that is known."""
    class_ = kind.rpartition(".")[2]
    ending = _SUFFIX.search(class_)
    bare = class_[: ending.start()] if ending else class_
    name = "-".join(_words(_HUMP.sub(" ", bare or class_))[:3])
    return _joined(name, ending[0].lower()) if ending and bare and alone else name


def unexplained_name(head: Sequence[str]) -> str:
    """Name an action that failed without an error, so that it does not read like an approach that works."""
    return _joined(_slug(" ".join(head), 3), "failed")


def another_name(name: str, number: int) -> str:
    """Return the name for the second, third, … of several with one name, never extending an exit status."""
    return f"{name}-variant-{number}" if name[-1:].isdigit() else f"{name}-{number}"


def former_names(readings: Iterable[tuple[str, str]], heads: Iterable[str]) -> set[str]:
    """Return the names earlier versions may have given a failure, with any of its actions or none.

    `readings` are the kinds and messages that they extracted from its errors.
    """
    done = ["", *heads]
    return {name for kind, message in readings for head in done for name in _former_names(kind, message, head)}


def _former_names(kind: str, message: str, head: str) -> Iterator[str]:
    """Yield the names of the first version, which put the action first, and of the last one."""
    yield _first_name(kind, message, head)
    if kind.startswith("exit "):
        yield _first_name(kind, "", head)
    yield _last_name(kind, message, head)


def _first_name(kind: str, message: str, head: str) -> str:
    lower, done = message.lower(), _former_slug(head)
    cause = next((name for phrase, name in _CAUSES if phrase in lower and phrase not in _LATER_CAUSES), "")
    cause = cause or _former_class(kind)
    if not cause:
        said = [word for word in _former_words(message) if word not in done.split("-")]
        cause = "-".join(said[: 3 if done else 5])
    return _joined(done, cause) or "failure"


def _last_name(kind: str, message: str, head: str) -> str:
    text = _HUMP.sub(" ", message).lower()
    phrase, cause = next(((phrase, name) for phrase, name in _CAUSES if phrase in text), ("\n", ""))
    class_, done = "" if cause else _former_class(kind), _former_slug(head).split("-")
    known = {*_SAYS_NOTHING, *cause.split("-"), *class_.split("-")}
    said = [word for word in _former_words(text.replace(phrase, " ")) if word not in known]
    class_ = "" if said and kind.startswith("exit ") else class_
    if done != [""] and (not said or set(done) & set(said)):
        rest = "-".join([word for word in said if word not in done][:3])
        return _joined("-".join(done), cause or class_ or rest) or "failure"
    return _joined(class_, "-".join(said[: 3 if cause or class_ else 5]), cause) or "failure"


def _former_class(kind: str) -> str:
    return _former_slug(_HUMP.sub(" ", _SUFFIX.sub("", kind.rpartition(".")[2]) or kind))


def _former_slug(text: str) -> str:
    return "-".join(_WORD.findall(_MASK.sub(" ", text.lower()))[:3])


def _former_words(text: str) -> list[str]:
    words = _WORD.findall(_MASK.sub(" ", text.lower()))
    return list(dict.fromkeys(word for word in words if word not in STOP_WORDS and len(word) > 1))


def check_name(pattern: str, solution: str) -> str:
    """Name a check after the first clause of the best solution: "clear the npm cache" gives verify-npm-cache-status.

    A clause that says not to do something gives no name, since a name cannot say that.
    """
    words = _looked_after(solution)
    return _joined("verify", "-".join(words), "status") if words else pattern_check_name(pattern)


def _looked_after(solution: str) -> list[str]:
    """Return the words for what a solution acts on, from its first clause that has any."""
    for clause in _FIRST_CLAUSE.split(solution):
        words = _telling(clause)
        words = words[1:] if words and words[0] in _VERBS else words
        if _NEGATION.search(clause):
            return []
        if words:
            return words[:3]
    return []


def former_check_name(solution: str) -> str:
    """Return the name earlier versions gave a check after its solution; empty if they gave it none."""
    words = _former_words(solution)
    words = words[1:] if words and words[0] in _VERBS else words
    return _joined("verify", "-".join(words[:3]), "status") if words else ""


def pattern_check_name(pattern: str) -> str:
    """Name a check after its pattern, whose name is unique."""
    return _joined("verify", pattern)


def action_check_name(action: str) -> str:
    """Name a check that was made for an action of its own."""
    return _joined("verify", _slug(action, 4)) or "verify"


def generate_prevention_strategies(pattern: FailurePattern) -> list[PreventionCheck]:
    """Return the check that a failure pattern suggests; an existing one is returned with its measurements.

    There is none without an action or a solution.
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
        rule=rule(pattern.actions, pattern.contexts, error_text(pattern)),
        stage=stage(pattern.environments, pattern.contexts),
        created_at=pattern.last_seen,
    )
    return [check]


def check_id(pattern_id: str) -> str:
    """Return the id of the check that a pattern suggests automatically."""
    return "check-" + digest(pattern_id)[:16]


def what_to_verify(pattern: FailurePattern) -> str:
    """Describe in a sentence what to do or verify before the action: the best solution, else the problem to fix."""
    before = _before(pattern.actions)
    helpful = [solution for solution in pattern.known_solutions if solution.success_rate >= 0.5][:SHOWN]
    if helpful:
        first, *others = helpful
        also = "".join(f"; or {_lowered(one.text)} ({_share(one)})" for one in others)
        if next(iter(_WORD.findall(first.text.lower())), "") in _VERBS:
            return f"{_raised(_in_short(first.text))}{before and f' before {before}'}: that {_helped(first)}{also}"
        opening = f"Before {before}, remember" if before else "Remember"
        return f"{opening} what {_helped(first)}: {_in_short(first.text)}{also}"
    times = _times(pattern.occurrence_count)
    if before and _is_unexplained(pattern):
        return f"Find out why {before} failed {times} before it is tried again"
    opening = f"Before {before}, make sure" if before else "Make sure"
    return f"{opening} that this is fixed: {_in_short(error_text(pattern))} (seen {times})"


def what_to_consider(action: str) -> str:
    """Describe what to verify for a check that has an action, but no description."""
    return f"Make sure that it is safe to do this now: {_in_short(action)}"


def stage(places: Iterable[str], contexts: Iterable[str]) -> str:
    """Return the workflow stage of failures, from the places where they happened, else from their contexts.

    A context is free text, and tells the stage only with a phrase such as "in production" or "staging server". Failures
    in continuous integration, or in an unknown place, are verified in development.
    """
    for text in places:
        words = {*_WORD.findall(_settled(text))}
        if found := next((name for name, own in _STAGES.items() if words & {*" ".join(own).split()}), ""):
            return found
    for text in contexts:
        if found := next((name for name, phrase in _PHRASES.items() if phrase.search(_settled(text))), ""):
            return found
    return ANY_STAGE


def _settled(text: str) -> str:
    """Write pre-production as one word, and remove what is said not to be production."""
    return _NO_PRODUCTION.sub(" ", _BEFORE_STAGING.sub("pre", text.lower()))


def _phrase(sure: str, loose: str) -> re.Pattern[str]:
    """Match a text that is one of these words, or that uses one as the place where something happens."""
    clear, every = "|".join(sure.split()), "|".join(f"{sure} {loose}".split())
    place = rf"\b(?:{every}|(?:{clear})[ -]+\w+)[ -]+{_PLACE}\b"
    return re.compile(rf"\A\W*(?:{every})\W*\Z|{_TO}(?:\w+-)*(?:{clear})\b|{place}")


_PHRASES = {name: _phrase(*words) for name, words in _STAGES.items()}


def _before(texts: Sequence[str]) -> str:
    """Quote the actions that failed; of several spellings of one, the first."""
    spelled = {parsing.parse_action(text).does: text for text in reversed(texts)}
    quoted = [f"“{_in_short(text)}”" for text in texts if text in spelled.values()]
    return _some(quoted, whole=len(texts) < LISTED)


def _some(texts: Sequence[str], *, whole: bool) -> str:
    """Join the first texts with "or", followed by the number of those left out (if `whole`, that is exact)."""
    others = len(texts) - SHOWN
    if others < 1:
        return " or ".join(texts)
    rest = "others" if not whole else "1 other" if others == 1 else f"{others} others"
    return " or ".join([*texts[:SHOWN], rest])


def _is_unexplained(pattern: FailurePattern) -> bool:
    """Return whether a failure came without an error."""
    signature = pattern.error_signature
    said = [unexplained(text, "") for text in pattern.actions]
    return any(signature == one or signature.startswith(f"{one} in ") for one in said)


def unexplained(action: str, context: str) -> str:
    """Return the signature of an action that failed without an error."""
    return f"{action} failed" + (f" in {context}" if context else "")


def _times(number: int) -> str:
    return f"{number} time" if number == 1 else f"{number} times"


def _helped(solution: Solution) -> str:
    """Describe how well a solution helped; a solution only noted with a failure is not known to have helped."""
    tried, helped = solution.tried - solution.noted, solution.helped - solution.noted
    if not tried:
        often = "" if solution.noted == 1 else f" {_times(solution.noted)}"
        return f"was noted as the solution{often}, without saying whether it helped"
    if tried == 1 and helped == 1:
        return "helped the one time it was tried"
    return f"helped {helped:g} of {_times(tried)}"


def _share(solution: Solution) -> str:
    if solution.tried == solution.noted:
        return f"noted {_times(solution.noted)}"
    return f"{solution.helped - solution.noted:g} of {solution.tried - solution.noted}"


def _in_short(text: str) -> str:
    one_line = " ".join(text.split()).rstrip(".")
    return one_line if len(one_line) <= LONGEST_QUOTE else one_line[: LONGEST_QUOTE - 1].rstrip() + "…"


def _raised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lowered(text: str) -> str:
    short = _in_short(text)
    return short if short[1:2].isupper() else short[:1].lower() + short[1:]


def rule(texts: Sequence[str], contexts: Sequence[str], signature: str) -> str:
    """Describe when a check fires."""
    if not texts:
        return f"actions that are named in: {signature}"
    where = [f"“{context}”" for context in contexts if context]
    place = f" in contexts like {_some(where, whole=len(contexts) < LISTED)}" if where else ""
    return f"actions like {_some([f'“{action}”' for action in texts], whole=len(texts) < LISTED)}{place}"


def _telling(text: str) -> list[str]:
    words = [word for word in _words(text) if not word.isdigit() and (len(word) > 1 or not word.isascii())]
    return list(dict.fromkeys(word for word in words if word not in STOP_WORDS))


def _slug(text: str, most: int) -> str:
    return "-".join([word for word in _words(text) if not word.isdigit()][:most])


def _words(text: str) -> list[str]:
    """Return the words of a text without masked or redacted parts; Latin letters lose their accents."""
    plain = _MASK.sub(" ", REDACTED.sub(" ", text)).lower()
    if not plain.isascii():
        plain = "".join(map(_folded, unicodedata.normalize("NFC", plain)))
    return "".join(character if unicodedata.category(character)[0] in "LMN" else " " for character in plain).split()


def _folded(character: str) -> str:
    base = unicodedata.normalize("NFKD", character)
    return "".join(c for c in base if not unicodedata.combining(c)) if base[0].isascii() else character


def _joined(*parts: str) -> str:
    words = [word for part in parts for word in part.split("-") if word]
    once = [word for place, word in enumerate(words) if place == 0 or words[place - 1] != word]
    name = "-".join(once)
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME].rpartition("-")[0] or name[:LONGEST_NAME]
