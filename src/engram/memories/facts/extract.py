"""Extract facts from simple English sentences, by rules; sentences that are not plain statements give none.

Questions, conditions, wishes, guesses, plans and reported speech are skipped, and so is any sentence that no rule
understands: a missing fact can be learned later, a wrong one would be believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import entry_points
from typing import Literal

from engram.errors import InvalidInput, MissingExtra
from engram.memories.facts.predicates import ATTRIBUTES, STATES, VERBS
from engram.model.fact import Statement
from engram.text.time_phrases import intervals

Extractor = Callable[[str, datetime], Iterable[Statement]]
"""A function that takes a text and its time, and returns the statements in it, in order."""

GROUP = "engram.extractors"
"""Entry-point group in which packages register extractors."""

MAX_TEXT = 100_000
MAX_SENTENCE = 300
"""Maximum characters of a simple sentence."""
MAX_OBJECT_WORDS = 8
MAX_SUBJECT_WORDS = 6

Tense = Literal["now", "past", "perfect", "event"]


def extract(text: str, now: datetime, speaker: str = "") -> list[Statement]:
    """Return the distinct statements in a text, in order; "I" and "my" refer to the `speaker`, if given."""
    found = dict[tuple[str, str, str, bool], Statement]()
    for sentence in sentences(text[:MAX_TEXT]):
        for statement in _sentence_statements(_in_third_person(sentence, speaker), now, speaker.strip()):
            key = (statement.subject, statement.predicate, statement.object, statement.negated)
            found.setdefault(key, statement.model_copy(update={"quote": sentence}))
    return list(found.values())


def installed_extractors() -> list[Extractor]:
    """Load the extractors of installed packages, by name. Raises `MissingExtra` if one cannot be loaded."""
    found = list[Extractor]()
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found.append(point.load())
        except ImportError as error:
            raise MissingExtra(f"{point.name} needs a package that is not installed ({error}); install it") from error
    return found


def run_extractors(text: str, now: datetime, extractors: Iterable[Extractor]) -> list[Statement]:
    """Return the distinct statements that several extractors find in a text."""
    found = dict[tuple[str, str, str, bool], Statement]()
    for extractor in extractors:
        for statement in extractor(text, now):
            if not isinstance(statement, Statement):
                raise InvalidInput(f"an extractor must give statements, not {type(statement).__name__}")
            key = (statement.subject, statement.predicate, statement.object, statement.negated)
            found.setdefault(key, statement)
    return list(found.values())


# Sentences.

_END = re.compile(r"[.!?]+(?=[\s\"')\]]|$)|\n")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|Dr|Mr|Mrs|Ms|Prof|St|No|[A-Z])$")
_BULLET = re.compile(r"^(?:[-*•>]|\d{1,3}[.)])\s+")
_FENCE = re.compile(r"^\s*(?:```|~~~)")


def sentences(text: str) -> Iterator[str]:
    """Split a text into sentences with their final punctuation, line by line; fenced code is skipped."""
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield from _line_sentences(_BULLET.sub("", line.strip()))


def _line_sentences(line: str) -> Iterator[str]:
    start = 0
    for mark in _END.finditer(line):
        if mark[0] == "." and _ABBREVIATION.search(line[max(start, mark.start() - 6) : mark.start()]):
            continue
        yield line[start : mark.end()].strip()
        start = mark.end()
    if line[start:].strip():
        yield line[start:].strip()


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HEDGES = _words(
    """if unless whether would could should might may maybe perhaps probably possibly presumably suppose supposedly
    supposing imagine assume assumes assuming assumed wish wishes hope hopes hopefully think thinks thought believe
    believes believed guess guesses seems seem apparently allegedly reportedly rumored rumoured said says say claims
    claimed told tells tell heard hears shall will won't wouldn't couldn't shouldn't must ought can can't cannot let's
    please pretend hypothetically theoretically likely unlikely almost nearly hardly barely sometimes usually often
    rarely seldom occasionally when whenever once only except wants want wanted plans plan planned intends considers
    considering tries try trying going expected supposed asks asked wonder wonders doubt doubts maybe neither either
    nor every any anyone anybody nobody someone somebody something anything nothing whoever whatever unsure unclear
    gonna gotta wanna"""
)
_OPENS_QUESTION = _words(
    """who whom whose what which where why how is are am was were do does did has have had can could will would
    should isn't aren't doesn't don't didn't"""
)
_PRONOUNS = _words(
    """i we you he she it they me us him her them this that these those there here mine ours yours his hers theirs
    one ones who which what my your their its all both each some many most few several none it's that's there's
    he's she's here's what's who's let's i'm i've you're we're they're everyone everybody everything myself"""
)
_FILLERS = _words("currently now also still really already always actually just")
_ENDS = _words("currently now today already yet too again anymore nowadays though here there instead right well")
_NOT_FIRST = _words(
    """and or but so because although though while since until after before during in on at by with without from for
    as than then yes no ok okay well however therefore thus also not never yesterday today tomorrow now currently
    recently sadly luckily
    last next sounds looks feels thanks thank yeah wow oh hey hi glad great good nice
    finally meanwhile otherwise instead another other to of about if unlike like"""
)
_NOT_IN_NAME = _words(
    """is are am was were be been being has have had do does did not and or but so because that which who whom if than
    to then with from by at on for it he she they we you i this these those there very too as into""",
)
_NOT_IN_OBJECT = _words(
    """is are was were am be been has had does did not n't never he she they it we you i me him us them that
    which who whom whose this these those there my your our their his her its yourself myself"""
)
_NOT_FIRST_IN_OBJECT = _NOT_IN_OBJECT | _words(
    """to so because as if than what how why where and or but in on at from about too very much
    more less almost supposed able unable ready sure afraid happy sorry going due like such something off open here
    full help up out down away back over just recently never glad good fine curious excited"""
)
_FLEETING = _words("idea sound question questions help hunt process chance feeling look way lot bit plan problem issue")
_DETERMINERS = _words("the a an another some any no this that")
_CONTRACTIONS = ("'ll", "'ve", "'re", "'m", "'d", "he's", "it's", "there's", "that's", "what's", "who's", "let's")
_NO_PROPERTY = _words(
    """rest most part majority kind sort point end beginning side lack idea fact use lot number amount result purpose
    problem reason cause goal case way all one some none both each"""
)
_CUT = re.compile(
    r",? (?:because|although|though|while|whereas|so that|instead of|rather than|except that|in order to|thanks to)\b"
    r"|, (?:which|who|where|whose|so|as|a|an|the|not|but|and|for|since|too|though)\b"
)
_CODE = re.compile(r"[{}<>|=;\\]|\(\)|://")
_BREAK = re.compile(r",? (?:and|but) |; ")
_CLITICS = (("n't", " not"), ("n’t", " not"))
_POSSESSIVE = re.compile(r"^(?P<owner>.{1,80}?)['’]s? (?P<what>[^'’]{1,60})$")
_PROPERTY_OF = re.compile(r"^[Tt]he (?P<what>[\w-]{1,30}(?: [\w-]{1,30})?) of (?P<owner>.{1,80})$")


def _in_third_person(sentence: str, speaker: str) -> str:
    """Replace "I" and "my" by the speaker; unchanged, and thus not understood, if the speaker is unknown."""
    if not speaker.strip():
        return sentence
    words = list[str]()
    for word in sentence.split():
        bare = word.rstrip(",.")
        plain = {"i": speaker, "my": f"{speaker}'s", "i'm": f"{speaker} am", "i’m": f"{speaker} am"}.get(bare.lower())
        words.append(word if plain is None or bare == "i" else plain + word[len(bare) :])
    return " ".join(words)


def _sentence_statements(sentence: str, now: datetime, speaker: str) -> list[Statement]:
    """Return the statements of one sentence."""
    if len(sentence) > MAX_SENTENCE or sentence.endswith(("?", "!", ":")) or _CODE.search(sentence.rstrip(";")):
        return []
    plain = sentence.rstrip(".").replace("’", "'").strip()
    for clitic, full in _CLITICS:
        plain = plain.replace(clitic, full)
    words = [word.strip(",\"'()") for word in plain.split()]
    words = [word if at and word == "May" else word.lower() for at, word in enumerate(words)]
    if not words or words[0] in _OPENS_QUESTION or _HEDGES & set(words) or plain.count('"') % 2:
        return []
    found, subject = list[Statement](), ""
    for clause in _clauses(plain):
        read = _clause(clause, subject, now, speaker)
        if read is None:
            break
        found += read.statements
        subject = read.subject
    return found


def _clauses(plain: str) -> Iterator[str]:
    """Split a sentence into clauses with one verb each: "Alice uses Go and lives in Paris" has two."""
    start, at = 0, 0
    for joint in _BREAK.finditer(plain):
        left, right = plain[start : joint.start()], plain[joint.end() :]
        if joint.start() >= at and _predicate(left.split()) and _is_clause(right):
            yield left
            start = at = joint.end()
    yield plain[start:]


def _is_clause(right: str) -> bool:
    """Return true if the text after an "and" is a clause, with or without a subject."""
    words = right.split()
    found = _predicate(["", *words], least=1)
    if found is not None and found.at == 1:
        return True
    found = _predicate(words)
    return found is not None and found.at <= MAX_SUBJECT_WORDS and _is_name(words[: found.at])


# Clauses.


@dataclass(frozen=True, slots=True)
class _Predicate:
    """A verb in a clause, which spans the words from `at` to `to`."""

    name: str
    at: int
    to: int
    tense: Tense = "now"
    negated: bool = False
    over: bool = False
    """True if it states that something has ended or was replaced."""
    plural: bool = False


@dataclass(frozen=True, slots=True)
class _ClauseStatements:
    subject: str
    statements: list[Statement]


@dataclass(frozen=True, slots=True)
class _Time:
    """The time a clause refers to, and the clause without it."""

    text: str
    start: datetime | None = None
    end: datetime | None = None
    exact: bool = False
    """True for a time such as "in 2020", which dates an event and gives no duration."""


_EVENTS = {
    "moved to": "lives in",
    "relocated to": "lives in",
    "joined": "works at",
    "switched to": "uses",
    "started using": "uses",
    "adopted": "uses",
    "stopped using": "not uses",
    "left": "not works at",
    "was born in": "was born in",
    "was born on": "was born on",
}
_PRESENT = {verb.name: verb.name for verb in VERBS.values()}
_PLURAL = {verb.base: verb.name for verb in VERBS.values()}
_PAST = {verb.past: verb.name for verb in VERBS.values() if verb.past not in _PLURAL}
_PARTICIPLES = {
    past: name for past, name in _PAST.items() if past not in {"had", "knew", "spoke", "wrote to", "ran on"}
}
_LISTS = {name for name in VERBS if name not in {"lives in", "works at", "runs on", "costs", "weighs", "has"}}
_LONGEST_PHRASE = 4


def _predicate(words: Sequence[str], least: int = 1) -> _Predicate | None:
    """Find the first known verb of a clause."""
    low = [word.lower().strip(",") for word in words]
    for at in range(least, min(len(low), MAX_SUBJECT_WORDS + 3)):
        if found := _verb_at(low, at):
            return found
    return None


def _verb_at(low: Sequence[str], start: int) -> _Predicate | None:
    at = start
    while at < len(low) and low[at] in _FILLERS:
        at += 1
    word = low[at] if at < len(low) else ""
    after = low[at + 1] if at + 1 < len(low) else ""
    if word in {"is", "are", "am"}:
        return _state_at(low, start, at, plural=word == "are")
    if word in {"do", "does"} and after in {"not", "never"}:
        return _phrase_at(low, start, at + 2, _PLURAL, negated=True, over="anymore" in low)
    if word == "no" and after == "longer":
        return _phrase_at(low, start, at + 2, _PRESENT | _PLURAL, negated=True, over=True)
    if word == "never":
        return _phrase_at(low, start, at + 1, _PRESENT, negated=True)
    if word in {"has", "have"} and (found := _phrase_at(low, start, at + 1, _PARTICIPLES, tense="perfect")):
        return found
    if word in {"has", "have"} and after == "no":
        return _Predicate("has", start, at + 2, negated=True, plural=word == "have")
    return (
        _phrase_at(low, start, at, _EVENTS, tense="event")
        or _phrase_at(low, start, at, _PRESENT)
        or _phrase_at(low, start, at, _PAST, tense="past")
        or _phrase_at(low, start, at, _PLURAL, plural=True)
    )


def _state_at(low: Sequence[str], start: int, at: int, *, plural: bool) -> _Predicate:
    """Parse a form of "to be" with its complement, such as "is not based in"."""
    to, negated, over = at + 1, False, False
    if low[to : to + 1] == ["not"]:
        to, negated, over = to + 1, True, "anymore" in low
    elif low[to : to + 2] == ["no", "longer"]:
        to, negated, over = to + 2, True, True
    while low[to : to + 1] and low[to] in _FILLERS:
        to += 1
    for length in range(_LONGEST_PHRASE, 0, -1):
        name = " ".join(["is", *low[to : to + length]])
        if name in STATES and len(low) > to + length:
            return _Predicate(name, start, to + length, negated=negated, over=over, plural=plural)
    return _Predicate("is", start, to, negated=negated, over=over, plural=plural)


def _phrase_at(
    low: Sequence[str],
    start: int,
    at: int,
    forms: dict[str, str],
    *,
    tense: Tense = "now",
    negated: bool = False,
    over: bool = False,
    plural: bool = False,
) -> _Predicate | None:
    for length in range(_LONGEST_PHRASE, 0, -1):
        name = forms.get(" ".join(low[at : at + length]))
        if name is not None and at + length <= len(low):
            ends = name.startswith("not ")
            name = name.removeprefix("not ")
            return _Predicate(name, start, at + length, tense, negated or ends, over or ends, plural)
    return None


def _clause(clause: str, inherited: str, now: datetime, speaker: str) -> _ClauseStatements | None:
    """Return the statements of one clause, or `None` if it, and thus the rest of the sentence, is not understood."""
    timed = _split_time(clause.strip(), now)
    words = timed.text.split()
    found = _predicate(["", *words], least=1) if inherited else None
    if found is not None and found.at == 1:
        found = replace(found, at=0, to=found.to - 1)
    else:
        inherited, found = "", _predicate(words)
    if found is None:
        return None
    subject = inherited or " ".join(words[: found.at])
    rest = " ".join(words[found.to :])
    span = _validity(found, timed)
    if span is None or not (inherited or _is_name(subject.split())):
        return None
    if found.tense == "event" and found.name == "works at" and not rest[:1].isupper():
        return None  # who joins or leaves a call, a club or early has no other employer
    statements = list[Statement]()
    for one in _subjects(subject, found, speaker):
        about = _property(one, found, rest)
        for object in _objects(about[1], about[2]):
            statements.append(
                Statement(
                    subject=about[0],
                    predicate=about[1],
                    object=object,
                    negated=found.negated,
                    valid_from=span[0],
                    valid_until=span[1],
                    replaces=True if found.over or about[3] else None,
                )
            )
    return _ClauseStatements(subject, statements) if statements else None


def _validity(found: _Predicate, timed: _Time) -> tuple[datetime | None, datetime | None] | None:
    """Return start and end of a statement's validity, or `None` if they are unclear for its tense."""
    if found.tense == "event":
        return timed.start, None if timed.exact else timed.end
    if found.tense == "past":
        return (timed.start, timed.end) if timed.start and timed.end else None
    if found.tense == "perfect":
        return (timed.start, None) if timed.start and not timed.exact else None
    if timed.exact or (timed.end and not timed.start):
        return None
    return timed.start, timed.end


_OPENING = re.compile(r"(?i:\b(?:since|from|as of|starting|until|till|in|on|during|between)) *$")


def _split_time(clause: str, now: datetime) -> _Time:
    """Split the time off the end or the beginning of a clause."""
    clause = clause.rstrip(" ,")
    for found in intervals(clause, now):
        at, to = found.span
        opening = _OPENING.search(clause[:at])
        begin = opening.start() if opening else at
        how = clause[begin:to].lower()
        if to == len(clause) and begin > 0 and clause[begin - 1] == " ":
            text = clause[:begin].rstrip(" ,")
        elif begin == 0 and clause[to : to + 1] in {",", " "}:
            text = clause[to:].lstrip(" ,")
        else:
            continue
        if how.startswith(("since", "as of", "starting")) or (how.startswith("from") and " to " not in how):
            return _Time(text, found.start, None if " to " not in how else found.end)
        if how.startswith(("until", "till")):
            return _Time(text, None, found.end)
        if how.startswith(("from", "between")):
            return _Time(text, found.start, found.end)
        if how.startswith(("in", "on", "during")):
            return _Time(text, found.start, found.end, exact=True)
    return _Time(clause)


# Names.


_NO_ADVERBS = _words("nightly hourly daily weekly monthly yearly early family assembly supply reply anomaly friendly")


def _is_adverb(word: str) -> bool:
    return word.islower() and word.endswith("ly") and word not in _NO_ADVERBS


def _is_name(words: Sequence[str]) -> bool:
    """Return true if the words before a verb are a name: no pronoun, no clause, not too many words."""
    low = [word.lower() for word in words]
    if not 0 < len(words) <= MAX_SUBJECT_WORDS or low[0] in _NOT_FIRST or low == ["the"]:
        return False
    if any(word in _PRONOUNS or word.endswith(",") or '"' in word for word in low):
        return False
    if low[-1].endswith("'s") or any(w.endswith(_CONTRACTIONS) or not any(map(str.isalnum, w)) for w in low):
        return False
    inner = set(low) & _NOT_IN_NAME
    if (low[0].endswith("ing") and len(low) > 1) or any(map(_is_adverb, words[1:])):
        return False
    return not inner or (inner == {"and"} and _pair(words) is not None)


def _pair(words: Sequence[str]) -> tuple[str, str] | None:
    """Return two proper names joined by "and"."""
    low = [word.lower() for word in words]
    if low.count("and") != 1:
        return None
    at = low.index("and")
    left, right = words[:at], words[at + 1 :]
    proper = left and right and all(word[:1].isupper() for word in (*left, *right))
    return (" ".join(left), " ".join(right)) if proper else None


def _subjects(subject: str, found: _Predicate, speaker: str) -> list[str]:
    """Return the subjects of a clause: two for "Alice and Bob use", none for one name with a plural verb."""
    pair = _pair(subject.split())
    if pair is not None:
        return list(pair) if found.plural or found.tense != "now" or found.negated else []
    if found.plural and found.name == "likes" and subject != speaker and " " in subject:
        return []  # "documents like these": more often a comparison than a liking
    several = subject.endswith("s") or subject == speaker or found.name in STATES
    return [subject.strip("\"'")] if several or not found.plural else []


def _property(subject: str, found: _Predicate, rest: str) -> tuple[str, str, str, bool]:
    """Return subject, predicate, object, and true if it is a property as in "X's Y is Z" and "the Y of X is Z"."""
    if found.name != "is" or found.plural or not rest:
        return subject, found.name, rest, False
    owned = _PROPERTY_OF.match(subject) or _POSSESSIVE.match(subject)
    if owned is None:
        return _numeric_property(subject, rest) or (subject, found.name, rest, False)
    if owned["what"].lower() in _NO_PROPERTY:
        return subject, found.name, "", False
    named = owned["what"].lower().rpartition(" ")[2] in ATTRIBUTES
    telling = rest[:1].isupper() or rest[:1] in "\"'" or any(c.isdigit() for c in rest)
    if not (named or telling or _PROPERTY_OF.match(subject)):
        return subject, found.name, rest, False
    return owned["owner"].strip(), owned["what"].lower(), rest, True


def _numeric_property(subject: str, rest: str) -> tuple[str, str, str, bool] | None:
    """Parse a property with a number as its value: "Node version is 20"."""
    owner, _, what = subject.rpartition(" ")
    counts = what.lower() in ATTRIBUTES and what.lower() != "team" and any(c.isdigit() for c in rest)
    counts = counts and owner not in {"The", "Our", "A", "An"}
    return (
        (owner, what.lower(), rest, True)
        if counts and owner[:1].isupper() and not owner.startswith(("The ", "Our ", "A ", "An "))
        else None
    )


def _objects(predicate: str, rest: str) -> list[str]:
    """Return the objects of a clause: one, or the items of a list."""
    cut = _CUT.search(rest)
    text = _trim(rest[: cut.start()] if cut else rest)
    if predicate in _LISTS:
        parts = _split_list(_without_purpose(text))
    else:
        head, comma, tail = text.partition(", ")
        parts = [text if comma and tail[:1].isupper() and len(tail.split()) <= 3 else head]
    return parts if parts and all(_is_object(predicate, part) for part in parts) else []


def _split_list(text: str) -> list[str]:
    """Split a list if its items are short and of one form; otherwise return the text as one item."""
    parts = [_trim(part) for part in _JOINTS.split(text)]
    determined = {part.split(" ")[0].lower() in _DETERMINERS for part in parts}
    return parts if len(determined) == 1 and all(len(part.split()) <= 3 for part in parts) else [text]


_JOINTS = re.compile(r", and |, | and ")


def _trim(text: str) -> str:
    words = text.strip(" ,").split()
    while words and words[-1].lower().strip(",") in _ENDS:
        words.pop()
    while len(words) > 1 and (_is_adverb(words[0]) or words[0] in _FILLERS):
        words.pop(0)
    return " ".join(words).strip(" ,\"'")


_PURPOSE = re.compile(r" (?:for|to|as|with|in|on|at|during|via|through|by) ")


def _without_purpose(text: str) -> str:
    """Drop the purpose of a thing: "Redis for caching" becomes "Redis"."""
    first = text.partition(" ")[0]
    found = None if first.islower() and first.endswith("ing") else _PURPOSE.search(text)
    return text[: found.start()] if found else text


def _is_object(predicate: str, text: str) -> bool:
    words = text.split()
    low = [word.lower().strip(",") for word in words]
    if not 0 < len(words) <= MAX_OBJECT_WORDS or low[0] in _NOT_FIRST_IN_OBJECT or set(low) & _NOT_IN_OBJECT:
        return False
    if low in (["the"], ["a"], ["an"]) or text.count('"') % 2 or any(word.endswith(_CONTRACTIONS) for word in low):
        return False
    if low[0] in _DETERMINERS and len(low) > 1 and low[1] in _FLEETING:
        return False
    if predicate == "knows" and len(low) > 3:
        return False
    if predicate == "is" and (low[0].endswith("ing") or (low[0].endswith("ed") and len(low) > 1)):
        return False
    return not (predicate == "has" and (low[0].endswith(("ed", "en")) or low[0] in {"got", "gone", "done", "to"}))
