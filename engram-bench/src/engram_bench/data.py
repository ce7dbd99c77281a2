"""Read the public data sets LoCoMo and LongMemEval as conversations and questions."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from engram.errors import InvalidInput, NotFound
from engram.ports import unstorable

MAX_BYTES = 4 << 30
"""Limit of unpacked size: a few kilobytes of gzip can unpack to any size."""

LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
LOCOMO_FORMAT = (
    "LoCoMo is a list of {sample_id, conversation: {session_1: [{speaker, dia_id, text}], session_1_date_time, …}, "
    "qa: [{question, evidence, category}]}"
)
LONGMEMEVAL_FORMAT = (
    "LongMemEval is a list of {question_id, question_type, question, question_date, answer_session_ids, "
    "haystack_session_ids, haystack_dates, haystack_sessions: [[{role, content}]]}, or {sessions: [{id, date, turns}], "
    "questions: […]}"
)

_GZIP = b"\x1f\x8b"
_EVIDENCE = re.compile(r"D\s*:?\s*(\d+)\s*:\s*(\d+)", re.IGNORECASE)
_SESSION = re.compile(r"session_(\d+)")
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")
_DATES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y/%m/%d")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    id: str
    session: str
    text: str
    speaker: str | None = None
    role: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns that are searched together."""

    id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one conversation, with the turns and sessions that answer it, if any."""

    id: str
    type: str
    text: str
    conversation: str
    answerable: bool
    turns: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    asked_at: datetime | None = None


@dataclass(frozen=True)
class DataSet:
    """Conversations, the questions about them, and what was left out, counted by reason."""

    name: str
    conversations: tuple[Conversation, ...]
    questions: tuple[Question, ...]
    left_out: dict[str, int] = field(default_factory=dict)
    single_store: bool = False
    sha256: str = ""
    """Hash of the unpacked JSON text."""

    def sample(self, limit: int | None) -> DataSet:
        """Return at most so many questions, spread evenly, and the conversations they are about."""
        total = len(self.questions)
        if limit is None or limit >= total:
            return self
        kept = tuple(self.questions[number * total // limit] for number in range(limit))
        about = {question.conversation for question in kept}
        return replace(self, questions=kept, conversations=tuple(c for c in self.conversations if c.id in about))


def read_locomo(path: Path) -> DataSet:
    """Read LoCoMo, each conversation searched separately. Raises `InvalidInput` for other files."""
    value, sha256 = read_json(path)
    return replace(locomo(value, path.name), sha256=sha256)


def read_longmemeval(path: Path, *, single_store: bool = False) -> DataSet:
    """Read LongMemEval, one haystack per question or one store for all sessions. Raises `InvalidInput`."""
    value, sha256 = read_json(path)
    return replace(longmemeval(value, path.name, single_store=single_store), sha256=sha256)


def unpacked(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip. Raises `NotFound` or `InvalidInput`."""
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound(f"there is no file {path}; give the path of a data set") from None
    try:
        if raw.startswith(_GZIP):
            with gzip.open(BytesIO(raw)) as packed:
                raw = packed.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path.name} is damaged and cannot be unpacked ({error}); fetch it again") from None
    if len(raw) > MAX_BYTES:
        raise InvalidInput(f"{path.name} is larger than {MAX_BYTES >> 30} GB; that is no data set")
    return raw


def read_json(path: Path) -> tuple[Any, str]:
    """Return the JSON value of a file, and the hash of its unpacked text. Raises `NotFound` or `InvalidInput`."""
    raw = unpacked(path)
    try:
        return json.loads(raw.decode("utf-8-sig")), hashlib.sha256(raw).hexdigest()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path.name} is not JSON ({error}); give the data set's JSON file, gzip or not") from None


# LoCoMo ----------------------------------------------------------------------------------------------------


class _Said(BaseModel):
    speaker: str = ""
    dia_id: str
    text: str = ""
    blip_caption: str | None = None


class _Asked(BaseModel):
    question: str
    evidence: list[Any] = []
    category: int


class _Sample(BaseModel):
    sample_id: str
    conversation: dict[str, Any]
    qa: list[_Asked]


_samples = TypeAdapter(list[_Sample])
_said = TypeAdapter(list[_Said])


def locomo(value: Any, name: str = "the file") -> DataSet:
    """Convert the JSON value of LoCoMo."""
    if _looks_like_longmemeval(value):
        raise InvalidInput(f"{name} is LongMemEval; use `engram bench longmemeval`. {LOCOMO_FORMAT}")
    left_out: Counter[str] = Counter()
    conversations, questions = [], []
    samples = _valid(_samples, value, name, LOCOMO_FORMAT)
    for sample in _unique("conversations", samples, "sample_id", left_out):
        turns = _locomo_turns(sample.conversation, name, left_out)
        conversations.append(Conversation(sample.sample_id, tuple(turns)))
        sessions = {turn.id: turn.session for turn in turns}
        ended = max((turn.at for turn in turns if turn.at is not None), default=None)
        for number, asked in enumerate(sample.qa):
            if not _usable(asked.question):
                left_out["questions without a text that can be asked"] += 1
                continue
            answerable = asked.category != 5
            gold = frozenset(_evidence(asked.evidence, sessions, left_out)) if answerable else frozenset()
            questions.append(
                Question(
                    id=f"{sample.sample_id}/{number}",
                    type=LOCOMO_TYPES.get(asked.category, f"category-{asked.category}"),
                    text=asked.question,
                    conversation=sample.sample_id,
                    answerable=answerable,
                    turns=gold,
                    sessions=frozenset(sessions[id] for id in gold),
                    asked_at=ended,  # unknown; "in March" is the last March before the end
                )
            )
    return _data_set("LoCoMo", name, conversations, questions, left_out)


def turn_ids(text: str) -> list[str]:
    """Return the turns that a piece of evidence names, such as `D8:6; D9:17`, `D:11:26` or `D30:05`, as `D8:6`."""
    return [f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(text)]


def moment(text: str | None) -> datetime | None:
    """Parse a time of LoCoMo or LongMemEval as UTC; `None` if it is none."""
    plain = _WEEKDAY.sub(" ", text or "").strip()
    for form in _DATES:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def _locomo_turns(conversation: dict[str, Any], name: str, left_out: Counter[str]) -> list[Turn]:
    numbers = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    turns = []
    for session in (f"session_{number}" for number in numbers):
        date = conversation.get(f"{session}_date_time")
        start = _dated(date if isinstance(date, str) else None, left_out)
        spoken = _valid(_said, conversation[session] or [], name, LOCOMO_FORMAT)
        for place, said in enumerate(spoken):
            caption = f" [image: {said.blip_caption}]" if said.blip_caption else ""
            turns.append(
                Turn(
                    id=next(iter(turn_ids(said.dia_id)), said.dia_id),
                    session=session,
                    text=(said.text + caption).strip(),
                    speaker=said.speaker.strip() or None,
                    at=_later(start, place),
                )
            )
    return _kept(turns, left_out)


def _evidence(given: Iterable[Any], known: dict[str, str], left_out: Counter[str]) -> list[str]:
    found = []
    for item in given:
        ids = turn_ids(item) if isinstance(item, str) else []
        if not ids:
            left_out["pieces of evidence that name no turn"] += 1
        for id in ids:
            if id in known:
                found.append(id)
            else:
                left_out["pieces of evidence about turns that do not exist"] += 1
    return found


# LongMemEval -----------------------------------------------------------------------------------------------


class _Message(BaseModel):
    role: str
    content: str
    has_answer: bool | None = None


class _Session(BaseModel):
    id: str
    date: str | None = None
    turns: list[_Message]


class _Query(BaseModel):
    question_id: str
    question_type: str
    question: str
    question_date: str | None = None
    answer_session_ids: list[str]


class _Entry(_Query):
    haystack_session_ids: list[str]
    haystack_dates: list[str | None]
    haystack_sessions: list[list[_Message]]


class _Shared(BaseModel):
    sessions: list[_Session]
    questions: list[_Query]


_entries = TypeAdapter(list[_Entry])
_shared = TypeAdapter(_Shared)

STORE = "all sessions"


def longmemeval(value: Any, name: str = "the file", *, single_store: bool = False) -> DataSet:
    """Convert the JSON value of LongMemEval; one list of sessions for all questions is always a single store."""
    if _looks_like_locomo(value):
        raise InvalidInput(f"{name} is LoCoMo; use `engram bench locomo`. {LONGMEMEVAL_FORMAT}")
    left_out: Counter[str] = Counter()
    queries: Sequence[_Query]
    if isinstance(value, dict):
        shared = _valid(_shared, value, name, LONGMEMEVAL_FORMAT)
        queries, haystacks, single_store = shared.questions, [shared.sessions], True
    else:
        entries = _valid(_entries, value, name, LONGMEMEVAL_FORMAT)
        queries, haystacks = entries, [_haystack(entry, name) for entry in entries]
    if single_store:
        haystacks = [_together(haystacks)]
    conversations, questions, gold = [], [], dict[str, dict[str, list[str]]]()
    names = [STORE] if single_store else [query.question_id for query in queries]
    for id, haystack in zip(names, haystacks, strict=True):
        if id not in gold:  # else the question is repeated
            conversation, gold[id] = _longmemeval_turns(id, haystack, left_out)
            conversations.append(conversation)
    for query in _unique("questions", queries, "question_id", left_out):
        about = STORE if single_store else query.question_id
        questions.append(_longmemeval_question(query, about, gold[about], left_out))
    asked = [question for question in questions if _usable(question.text)]
    left_out["questions without a text that can be asked"] += len(questions) - len(asked)
    return replace(_data_set("LongMemEval", name, conversations, asked, left_out), single_store=single_store)


def _haystack(entry: _Entry, name: str) -> list[_Session]:
    ids, dates, sessions = entry.haystack_session_ids, entry.haystack_dates, entry.haystack_sessions
    if not len(ids) == len(dates) == len(sessions):
        raise InvalidInput(
            f"{name}: question {entry.question_id!r} has {len(sessions)} sessions, {len(ids)} session ids and "
            f"{len(dates)} dates; there must be one of each for every session. {LONGMEMEVAL_FORMAT}"
        )
    return [_Session.model_construct(id=i, date=d, turns=t) for i, d, t in zip(ids, dates, sessions, strict=True)]


def _together(haystacks: Iterable[Iterable[_Session]]) -> list[_Session]:
    """Return every session once; a copy used as filler may lack the answer marks of the original."""
    kept: dict[str, _Session] = {}
    for session in (session for haystack in haystacks for session in haystack):
        known = kept.setdefault(session.id, session)
        if sum(bool(said.has_answer) for said in session.turns) > sum(bool(said.has_answer) for said in known.turns):
            kept[session.id] = session
    return list(kept.values())


def _longmemeval_turns(
    id: str, sessions: Iterable[_Session], left_out: Counter[str]
) -> tuple[Conversation, dict[str, list[str]]]:
    """Return the conversation, and for each session the turns marked as containing an answer."""
    turns, answers = [], dict[str, list[str]]()
    for session in _unique("sessions", sessions, "id", left_out):
        start = _dated(session.date, left_out)
        marked = answers.setdefault(session.id, [])
        for place, said in enumerate(session.turns):
            turn = Turn(
                id=f"{session.id}:{place}",
                session=session.id,
                text=said.content.strip(),
                role=said.role.strip() or None,
                at=_later(start, place),
            )
            turns.append(turn)
            if said.has_answer and _usable(turn.text):
                marked.append(turn.id)
    return Conversation(id, tuple(_kept(turns, left_out))), answers


def _longmemeval_question(query: _Query, about: str, answers: dict[str, list[str]], left_out: Counter[str]) -> Question:
    answerable = not query.question_id.endswith("_abs")
    known = [id for id in dict.fromkeys(query.answer_session_ids) if id in answers] if answerable else []
    if answerable:
        left_out["answer sessions that do not exist"] += len(set(query.answer_session_ids)) - len(known)
    return Question(
        id=query.question_id,
        type=query.question_type,
        text=query.question,
        conversation=about,
        answerable=answerable,
        turns=frozenset(turn for id in known for turn in answers[id]),
        sessions=frozenset(known),
        asked_at=moment(query.question_date),
    )


# Both ------------------------------------------------------------------------------------------------------


def _valid(shape: TypeAdapter[T], value: Any, name: str, expected: str) -> T:
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the whole"
        raise InvalidInput(f"{name} is not in the expected format: {where}: {problem['msg']}. {expected}") from None


def _looks_like_locomo(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "qa" in value[0]


def _looks_like_longmemeval(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and bool({"haystack_sessions", "sessions"} & first.keys())


def _data_set(
    name: str,
    file: str,
    conversations: Sequence[Conversation],
    questions: Sequence[Question],
    left_out: Counter[str],
) -> DataSet:
    if not questions or not any(conversation.turns for conversation in conversations):
        raise InvalidInput(f"{file} has no questions or no conversations; give the whole data set")
    return DataSet(name, tuple(conversations), tuple(questions), {k: n for k, n in left_out.items() if n})


def _unique(what: str, items: Iterable[T], id: str, left_out: Counter[str]) -> list[T]:
    """Return the items without repeated ids."""
    kept: dict[str, T] = {}
    for item in items:
        if kept.setdefault(getattr(item, id), item) is not item:
            left_out[f"{what} that come twice"] += 1
    return list(kept.values())


def _kept(turns: Iterable[Turn], left_out: Counter[str]) -> list[Turn]:
    said = []
    for turn in turns:
        if not _usable(turn.text):
            left_out["turns without a text that can be kept"] += 1
        else:
            said.append(turn)
    return _unique("turns", said, "id", left_out)


def _usable(text: str) -> bool:
    return bool(text.strip()) and unstorable(text) is None


def _dated(date: str | None, left_out: Counter[str]) -> datetime | None:
    start = moment(date)
    left_out["dates of sessions that cannot be read"] += start is None
    return start


def _later(start: datetime | None, seconds: int) -> datetime | None:
    try:
        return None if start is None else start + timedelta(seconds=seconds)
    except OverflowError:
        return start
