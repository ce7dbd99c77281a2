"""Store a data set's conversations, ask its questions, and return the results as rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from engram import __version__
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, MissingExtra, ModelError
from engram.model import Draft, Hit, Memory
from engram.ports import Embedder
from engram.text.terms import digest
from engram_bench import ProgressCallback, baselines, no_progress
from engram_bench.baselines import Baseline, Found
from engram_bench.cached_embedder import CachedEmbedder, remember_vectors
from engram_bench.data import Conversation, DataSet, Question, Turn
from engram_bench.metrics import KS
from engram_bench.rankings import ENGRAM, LEVELS, BenchmarkRun, Level, Ranking

BATCH = 256
DEEPEST = max(KS)


def run(
    data: DataSet,
    brain: Engram,
    *,
    minilm: Callable[[], Embedder] | None = None,
    say: Callable[[str], None] = lambda _: None,
    on_progress: ProgressCallback = no_progress,
) -> tuple[BenchmarkRun, list[Ranking]]:
    """Store, ask and, if `minilm` is given, compare; return the run and every ranking."""
    remember_vectors(brain)
    refused = store(brain, data, on_progress)
    rankings, skipped = ask(brain, data, on_progress), list[str]()
    if minilm is not None:
        systems, skipped = baselines_for(brain, minilm, on_progress)
        for reason in skipped:
            say(reason)
        rankings += compare(data, systems, on_progress)
    done = BenchmarkRun(
        benchmark=data.name,
        engram=__version__,
        embedder=brain.embedder.identity,
        data_sha256=data.sha256,
        single_store=data.single_store,
        conversations=len(data.conversations),
        turns=sum(len(conversation.turns) for conversation in data.conversations),
        left_out=data.left_out | ({"turns that the store refused": refused} if refused else {}),
        skipped=tuple(skipped),
    )
    return done, rankings


def store(brain: Engram, data: DataSet, on_progress: ProgressCallback = no_progress) -> int:
    """Store every turn that is not stored yet; return how many were refused.

    Each conversation is an agent of its own, named after its content. Raises `InvalidInput` if there are only vectors
    of another embedder, because then only words would be searched.
    """
    identity = brain.embedder.identity  # a missing model is an error here, not a worse result
    total, done, refused = sum(len(conversation.turns) for conversation in data.conversations), 0, 0
    agents = agents_of(brain, data)
    for conversation in data.conversations:
        agent = agents[conversation.id]
        if not _is_there(agent, conversation):
            drafts = _drafts(conversation)
            for first in range(0, len(drafts), BATCH):
                batch = drafts[first : first + BATCH]
                refused += sum(not receipt.ok for receipt in agent.remember(batch))
                on_progress(done + first + len(batch), total, "storing")
        done += len(conversation.turns)
        on_progress(done, total, "storing")
    if missing := brain.upkeep.missing_vectors():
        raise InvalidInput(
            f"{missing:,} memories of this database have no vector of {identity}; "
            "run `engram upkeep reembed` on it, or give another --db"
        )
    return refused


def ask(brain: Engram, data: DataSet, on_progress: ProgressCallback = no_progress) -> list[Ranking]:
    """Return what Engram recalls for every question, by turn and by session."""
    found, agents = [], agents_of(brain, data)
    conversations = {conversation.id: conversation for conversation in data.conversations}
    for number, question in enumerate(data.questions, start=1):
        conversation = conversations[question.conversation]
        for level in LEVELS:
            agent = agents[conversation.id]
            by: Literal["session"] | None = "session" if level == "session" else None
            hits = agent.recall(question.text, DEEPEST, group_by=by, now=question.asked_at)
            ids = [(_id(conversation, hit, level), hit.score) for hit in hits]
            found.append(_ranking(question, level, ENGRAM, ids, confidence(hits) if level == "turn" else None))
        on_progress(number, len(data.questions), "asking")
    return found


def confidence(hits: Sequence[Hit]) -> float:
    """Return the confidence that there is an answer: the score of the first hit, or 0."""
    return hits[0].score if hits else 0.0


def compare(data: DataSet, systems: Sequence[Baseline], on_progress: ProgressCallback = no_progress) -> list[Ranking]:
    """Return what each baseline finds for every question; a session ranks as its best turn does."""
    found = []
    total, done = len(systems) * len(data.questions), 0
    for conversation in data.conversations:
        questions = [question for question in data.questions if question.conversation == conversation.id]
        for system in systems:
            on_progress(done, total, system.name)
            search = system.over(conversation.turns) if conversation.turns else lambda _: []
            for question in questions:
                hits = search(question.text)
                found += [
                    _ranking(question, level, system.name, _ids(conversation, hits, level)) for level in system.levels
                ]
                done += 1
                on_progress(done, total, system.name)
    return found


def baselines_for(
    brain: Engram, minilm: Callable[[], Embedder], on_progress: ProgressCallback = no_progress
) -> tuple[list[Baseline], list[str]]:
    """Return the systems to compare with, and the reasons why others are unavailable."""
    redactor, skipped = brain.redactor, list[str]()
    systems = [
        Baseline("BM25", baselines.bm25),
        Baseline("BM25, whole sessions", baselines.bm25_of_sessions, ("session",)),
        Baseline("vectors", baselines.by_vector(CachedEmbedder(brain.embedder, on_progress), redactor)),
    ]
    try:
        small = CachedEmbedder(minilm(), on_progress)
    except (ModelError, MissingExtra) as error:
        skipped.append(f"RRF and Chroma with MiniLM are left out: {error}")
    else:
        both = baselines.fused(baselines.bm25, baselines.by_vector(small, redactor))
        systems.append(Baseline("RRF BM25 + MiniLM", both))
        try:
            systems.append(Baseline("Chroma MiniLM", baselines.chroma(small, redactor)))
        except MissingExtra as error:
            skipped.append(f"Chroma is left out: {error}")
    return systems, skipped


def agents_of(brain: Engram, data: DataSet) -> dict[str, AgentHandle]:
    """Return the agent for each conversation; other content is another agent."""
    return {c.id: brain.agent(f"bench-{digest(c.id, *map(repr, c.turns))}") for c in data.conversations}


def _is_there(agent: AgentHandle, conversation: Conversation) -> bool:
    """Return whether all turns are stored; keys keep an interrupted run from storing any twice."""
    last = len(conversation.turns) - 1
    return last < 0 or bool(agent.list(limit=1, offset=last))


def _drafts(conversation: Conversation) -> list[Draft]:
    return [
        Draft(
            turn.text,
            kind="message",
            session=turn.session,
            speaker=turn.speaker,
            role=turn.role,
            at=turn.at,
            key=turn.id,
            metadata={"turn": place},
        )
        for place, turn in enumerate(conversation.turns)
    ]


def turn_of(conversation: Conversation, memory: Memory) -> Turn:
    """Return the turn of a memory."""
    return conversation.turns[int(str(memory.metadata["turn"]))]


def _id(conversation: Conversation, hit: Hit, level: Level) -> str:
    turn = turn_of(conversation, hit.memory)
    return turn.session if level == "session" else turn.id


def _ids(conversation: Conversation, hits: Found, level: Level) -> list[tuple[str, float]]:
    """Return the ids of turns, or of their sessions, each with its best score."""
    best: dict[str, float] = {}
    for place, score in hits:
        turn = conversation.turns[place]
        best.setdefault(turn.session if level == "session" else turn.id, score)
    return list(best.items())[:DEEPEST]


def _ranking(
    question: Question, level: Level, system: str, ids: Sequence[tuple[str, float]], sure: float | None = None
) -> Ranking:
    gold = question.sessions if level == "session" else question.turns
    return Ranking(
        question=question.id,
        type=question.type,
        level=level,
        system=system,
        answerable=question.answerable,
        gold=tuple(sorted(gold)),
        ranked=tuple(ids),
        confidence=sure,
    )
