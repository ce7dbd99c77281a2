"""Plant attacks among ordinary memories, and count the recalls that reach them, with the defence and without."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from engram import wiring
from engram.engine import AgentHandle
from engram.errors import InvalidInput
from engram.model import Draft
from engram.privacy.instructions import is_instruction, strength, suspicions
from engram.system import batched
from engram_bench import ProgressCallback, no_progress
from engram_bench.data import unpacked
from engram_bench.metrics import SEED

FORMAT = 'a line is {"text", "label"}, label 1 for an attack and 0 for ordinary text; "attack" names its kind'
K = 10
MOST_QUESTIONS = 200
WORDS = 12
"""Words of a text that make a question about it."""

RATES = (0.0017, 0.01)
"""Shares of poison that is not aimed at a question."""

Admit = Callable[[str], bool]
"""Returns whether an untrusted text may be recalled without review."""


def admit(text: str) -> bool:
    """Admit a text unless it looks like an instruction to an agent (the defence)."""
    return not is_instruction(text)


def admit_all(text: str) -> bool:
    """Admit everything (no defence)."""
    return True


class LabelledText(BaseModel):
    """One labelled text."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    text: str
    label: int
    attack: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class AttackExposure:
    """Counts of recalls with at least one attack among the results."""

    questions: int
    planted: int
    memories: int
    reached: int

    @property
    def share(self) -> float:
        """Share of the questions."""
        return self.reached / self.questions if self.questions else 0.0


def read(path: Path) -> tuple[list[LabelledText], str]:
    """Read the rows of a JSONL file, with the hash of its text. Raises `NotFound` or `InvalidInput`."""
    raw = unpacked(path)
    rows = []
    for number, line in enumerate(_text(raw, path).split("\n"), start=1):
        if line.strip():
            try:
                rows.append(LabelledText.model_validate_json(line))
            except ValidationError:
                raise InvalidInput(f"{path.name}, line {number}: {FORMAT}") from None
    if not any(row.label for row in rows) or all(row.label for row in rows):
        raise InvalidInput(f"{path.name} needs attacks and ordinary texts; {FORMAT}")
    return rows, hashlib.sha256(raw).hexdigest()


def read_clean(path: Path) -> list[str]:
    """Read ordinary texts: every `text` or `content` of JSON or JSON lines, else the paragraphs of a text."""
    text = _text(unpacked(path), path)
    try:
        values = [json.loads(text)]
    except ValueError:
        try:
            values = [json.loads(line) for line in text.split("\n") if line.strip()]
        except ValueError:
            return [part.strip() for part in text.split("\n\n") if part.strip()]
    return [found for value in values for found in _texts_in(value)]


def judge(row: LabelledText) -> dict[str, JsonValue]:
    """Return the detector's result for one row, as `--out` writes it."""
    found = suspicions(row.text)
    return {
        "label": row.label,
        "attack": row.attack,
        "quarantined": not admit(row.text),
        "score": strength(found),
        "rules": [*sorted({one.rule for one in found})],
    }


def run(
    rows: Sequence[LabelledText],
    clean: Mapping[str, Sequence[str]] | None = None,
    *,
    on_progress: ProgressCallback = no_progress,
) -> tuple[dict[str, Any], list[dict[str, JsonValue]]]:
    """Return the report, and one judgement per row, in order."""
    attacks = [row for row in rows if row.label]
    sources = {"ordinary": [row.text for row in rows if not row.label], **(clean or {})}
    ordinary = list(dict.fromkeys(text for texts in sources.values() for text in texts if text.strip()))
    arms: dict[str, Admit] = {"without defence": admit_all, "with defence": admit}
    steps, done = len(arms) * (1 + len(RATES)), 0
    exposures: dict[str, dict[str, AttackExposure]] = {}
    plans = _plans(attacks, ordinary)
    for name, (planted, questions) in plans.items():
        exposures[name] = {}
        for arm, gate in arms.items():
            on_progress(done, steps, f"{name}, {arm}")
            exposures[name][arm] = exposure(ordinary, planted, questions, gate)
            done += 1
    on_progress(steps, steps, "done")
    judgements = [judge(row) for row in rows]
    return _report(rows, sources, exposures, judgements), judgements


def exposure(ordinary: Sequence[str], planted: Sequence[str], questions: Sequence[str], gate: Admit) -> AttackExposure:
    """Ask questions of a memory with ordinary texts, and with the attacks that the gate admits."""
    with wiring.open(":memory:", embedder="hashing") as brain:
        agent = brain.agent("reader")
        kept = _fill(agent, ordinary)
        let_in = _fill(agent, [text for text in planted if gate(text)])
        reached = sum(any(hit.id in let_in for hit in agent.recall(ask, k=K)) for ask in questions)
    return AttackExposure(len(questions), len(planted), len(kept) + len(let_in), reached)


def _fill(agent: AgentHandle, texts: Sequence[str]) -> frozenset[str]:
    """Remember texts, and return the ids by which they can be recalled."""
    ids: set[str] = set()
    for some in batched(texts, 500):
        receipts = agent.remember([Draft(text) for text in some])
        ids.update(receipt.id for receipt in receipts if receipt.id is not None)
    return frozenset(ids)


def _plans(attacks: Sequence[LabelledText], ordinary: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Return what to plant and ask: questions in an attack's own words, the worst case, and ordinary ones."""
    chance = Random(SEED)  # noqa: S311
    texts = list(dict.fromkeys(row.text for row in attacks))
    aimed = chance.sample(texts, min(len(texts), MOST_QUESTIONS))
    asked = chance.sample(list(ordinary), min(len(ordinary), MOST_QUESTIONS))
    plans = {"aimed at the question": (texts, [_question(text, chance) for text in aimed])}
    usual = [_question(text, chance) for text in asked]
    for rate in RATES:
        number = min(len(texts), max(1, round(rate * len(ordinary))))
        plans[f"not aimed, {100 * rate:g}% poison"] = (chance.sample(texts, number), usual)
    return plans


def _question(text: str, chance: Random) -> str:
    """Return a stretch of a text's own words."""
    words = text.split()
    start = chance.randrange(max(1, len(words) - WORDS + 1))
    return " ".join(words[start : start + WORDS])


def _report(
    rows: Sequence[LabelledText],
    sources: Mapping[str, Sequence[str]],
    exposures: Mapping[str, Mapping[str, AttackExposure]],
    judgements: Sequence[Mapping[str, JsonValue]],
) -> dict[str, Any]:
    kinds = sorted({row.attack or "" for row in rows if row.label})
    return {
        "k": K,
        "exposure": [
            {
                "attack": name,
                "arm": arm,
                "questions": found.questions,
                "planted": found.planted,
                "memories": found.memories,
                "share": found.share,
            }
            for name, arms in exposures.items()
            for arm, found in arms.items()
        ],
        "quarantined": [
            _share(kind, [j for j in judgements if j["label"] and (j["attack"] or "") == kind]) for kind in kinds
        ],
        "all_attacks": _share("all", [j for j in judgements if j["label"]]),
        "false_quarantines": [
            _share(name, [{"quarantined": not admit(text)} for text in texts]) for name, texts in sources.items()
        ],
        "microseconds_per_200_characters": _cost([text for texts in sources.values() for text in texts]),
    }


def _share(name: str, judgements: Sequence[Mapping[str, JsonValue]]) -> dict[str, Any]:
    hit = sum(bool(one["quarantined"]) for one in judgements)
    return {
        "name": name,
        "texts": len(judgements),
        "quarantined": hit,
        "share": hit / len(judgements) if judgements else 0.0,
    }


def _cost(texts: Sequence[str]) -> float:
    pieces = [text[:200] for text in texts if len(text) >= 200][:2000] or [text[:200] for text in texts]
    start = time.process_time()
    for piece in pieces:
        is_instruction(piece)
    return (time.process_time() - start) / max(len(pieces), 1) * 1e6


def _texts_in(value: JsonValue) -> Iterator[str]:
    """Yield every `text` and `content` within a JSON value."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in ("text", "content") and isinstance(inner, str):
                yield inner
            else:
                yield from _texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner)


def _text(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path.name} is not UTF-8 ({error}); {FORMAT}") from None
