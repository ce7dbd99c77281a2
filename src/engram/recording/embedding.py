"""Embed entries, queries and contexts; a memory or a query without a vector is no failure."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from engram.errors import EngramError, Hint, ModelError, StoreError
from engram.learning.service import CONTEXTS
from engram.learning.situations import everyday_texts
from engram.learning.situations.nearness import relative_closeness
from engram.model import Clean, DecisionContent, FailureContent, Memory, join_clean, split_clean
from engram.model.memory import WITHOUT_VECTOR
from engram.ports import (
    LONG_TERM,
    Embedder,
    Entry,
    Matrix,
    Placed,
    Purpose,
    Store,
    Vector,
    is_unit,
)
from engram.telemetry import span
from engram.text.passages import LONGEST_WHOLE, passages

RARE = 0.99
"""The quantile of the similarities of texts that have nothing in common by which scripts are compared."""
CHANCE = 0.95
"""The quantile of how close the nearest of these are up to which nothing in common is needed for it."""
REMEMBERED = 128
"""Contexts whose vectors are kept, the last ones: an agent asks about one context again and again."""


class Embeddings:
    """Vectors of texts, by one embedder that is chosen at first need."""

    def __init__(self, store: Store, choose: Callable[[], Embedder], say: Callable[[str], None]) -> None:
        self._store = store
        self.choose = choose
        """What is asked for the embedder, once."""
        self._say = say
        self._chosen: Embedder | None = None
        self._choosing = threading.Lock()
        self._contexts: OrderedDict[Clean, Placed] = OrderedDict()
        self._background: Matrix | None = None

    @property
    def embedder(self) -> Embedder:
        """The embedder in use. Raises `ModelError` if there is none to be had."""
        with self._choosing:
            if self._chosen is None:
                chosen = self.choose()
                if self._store.embedder() is None:
                    self._store.set_embedder(chosen.identity)
                self._chosen = chosen
            return self._chosen

    def embed(self, entries: Sequence[Entry]) -> tuple[list[Entry], str | None]:
        """Return the entries with their vectors, or unchanged and the reason why there are none."""
        try:
            vectors = self.vectors_of([entry.memory for entry in entries])
        except Exception as error:  # noqa: BLE001 - a memory is never lost to a model, whatever the model does
            reason = f"{WITHOUT_VECTOR}: {error.message if isinstance(error, EngramError) else error}"
            self._say(f"{reason}; `engram upkeep reembed` adds it")
            return list(entries), reason
        return [replace(entry, vectors=own) for entry, own in zip(entries, vectors, strict=True)], None

    def vectors_of(self, memories: Sequence[Memory]) -> list[tuple[Placed, ...]]:
        """Return the vectors of each memory: one for each passage of its text, and one for the context of a decision.

        Raises `ModelError`.
        """
        wholes = [join_clean(memory.context, memory.text) if memory.context else memory.text for memory in memories]
        texts = [[whole] if len(whole) <= LONGEST_WHOLE else split_clean(whole, passages) for whole in wholes]
        contexts = [_situation(memory) for memory in memories]
        all_of_them = [text for own, context in zip(texts, contexts, strict=True) for text in [*own, *context]]
        rows, name = iter(self._vectors(all_of_them, "document")), self.embedder.identity
        return [
            (
                *(Placed(LONG_TERM, name, next(rows), n) for n in range(len(own))),
                *(Placed(CONTEXTS, name, next(rows)) for _ in context),
            )
            for own, context in zip(texts, contexts, strict=True)
        ]

    def query_vector(self, query: Clean, namespace: str = LONG_TERM, purpose: Purpose = "query") -> Placed | None:
        """Return the vector of a query, or `None` when it cannot be embedded."""
        try:
            return Placed(namespace, self.embedder.identity, self._vectors([query], purpose)[0])
        except Exception as error:  # noqa: BLE001 - without a vector the words are still searched
            self._say(f"searching by words only: {error}")
            return None

    def context_vector(self, context: Clean) -> Placed | None:
        """Return the vector of a context, to find decisions that were taken in similar ones."""
        if (known := self._contexts.get(context)) is not None:
            return known
        placed = self.query_vector(context, CONTEXTS, "document")
        if placed is not None:
            self._contexts[context] = placed
            while len(self._contexts) > REMEMBERED:
                self._contexts.popitem(last=False)
        return placed

    def baseline_similarity(self, context: Clean) -> float | None:
        """Measure how similar a context is to everyday texts in its script; `None` if it cannot be embedded."""
        placed = self.context_vector(context)
        if placed is None:
            return None
        known = self._known()
        means, lifts = known[:, :-2], known[:, -2]
        likeness = means @ placed.vector
        script = int(likeness.argmax())
        return min(float(likeness[script] + lifts[script]), 1.0)

    def chance_closeness(self) -> float:
        """Return the closeness that texts about different matters may have by chance, 1 being the same text."""
        return float(self._known()[0, -1])

    def _known(self) -> Matrix:
        if self._background is None:
            self._background = self._everyday()
        return self._background

    def _everyday(self) -> Matrix:
        """Read what everyday texts are like from the settings, or compute and keep it.

        There is a row for each script: the mean vector, how much more alike than that texts are taken to be, so that by
        chance they are no closer to each other than in the first script, which embedders know best, and how close the
        nearest of them are in the first script.
        """
        name = f"background:{everyday_texts.VERSION}:{self.embedder.identity}"
        if kept := self._store.setting(name):
            return np.array(json.loads(kept), dtype=np.float32)
        rows, usual, unrelated = list[Vector](), 0.0, 0.0
        for texts in everyday_texts.TEXTS:
            vectors = self._vectors(texts, "document")
            likeness = (vectors @ vectors.T)[np.triu_indices(len(texts), 1)]
            mean, high = float(likeness.mean()), float(np.quantile(likeness, RARE))
            if not rows:
                usual = (high - mean) / (1 - mean)
                unrelated = _closest(vectors)
            lift = max((high - usual) / (1 - usual) - mean, 0.0)
            rows.append(np.append(vectors.mean(axis=0), [lift, unrelated]))
        found: Matrix = np.stack(rows).astype(np.float32)
        try:
            self._store.set_setting(name, json.dumps([[round(float(part), 6) for part in row] for row in found]))
        except StoreError as error:  # whoever only reads need not be able to write
            self._say(f"what everyday texts are like is not kept for the next process: {error}")
        return found

    def _vectors(self, texts: Sequence[Clean], purpose: Purpose) -> Matrix:
        """Embed texts. Raises `ModelError` if the embedder returns no unit vectors of its dimension."""
        with span("embeddings", "embed"):
            matrix = self.embedder.embed(texts, purpose)
        if matrix.shape != (len(texts), self.embedder.dim) or not is_unit(matrix):
            raise ModelError(
                f"{self.embedder.identity} gave vectors that are none", hint=Hint("model verify", "looks into it")
            )
        return matrix


def _closest(vectors: Matrix) -> float:
    """Give the closeness that nearly all of some texts lack to the nearest other one."""
    likeness, usual = vectors @ vectors.T, vectors @ vectors.mean(axis=0)
    np.fill_diagonal(likeness, -1.0)
    closest = zip(usual.tolist(), likeness.max(axis=1).tolist(), strict=True)
    return float(np.quantile([relative_closeness(*each) for each in closest], CHANCE))


def _situation(memory: Memory) -> list[Clean]:
    """The context of a decision, or of an action that failed, by which similar ones are found."""
    content, context = memory.content, memory.context
    if isinstance(content, DecisionContent):
        context = content.decision_context or context
    elif not isinstance(content, FailureContent) or not content.action.strip():
        return []
    return [context] if context.strip() else []
