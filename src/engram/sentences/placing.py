"""Where texts are among the vectors; a memory or a query without a vector is no failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from engram.errors import ModelError
from engram.learn.learning import CONTEXTS
from engram.model import Clean, DecisionContent, Memory, joined, pieces
from engram.passages import passages
from engram.ports import LONG_TERM, Embedder, Entry, Matrix, MemoryStore, MirrorsVectors, Placed, Purpose, is_unit
from engram.telemetry import span


class Placing:
    """Gives texts their vectors, by one embedder that is chosen at first need."""

    def __init__(self, store: MemoryStore, choose: Callable[[], Embedder], say: Callable[[str], None]) -> None:
        self._store = store
        self.choose = choose
        """What is asked for the embedder, once."""
        self._say = say
        self._chosen: Embedder | None = None
        self._choosing = threading.Lock()

    @property
    def embedder(self) -> Embedder:
        """The embedder in use. Raises `ModelError` if there is none to be had."""
        with self._choosing:
            if self._chosen is None:
                chosen = self.choose()
                if isinstance(self._store, MirrorsVectors) and self._store.embedder() is None:
                    self._store.set_embedder(chosen.identity)
                self._chosen = chosen
            return self._chosen

    def embed(self, entries: Sequence[Entry]) -> tuple[list[Entry], str | None]:
        """The entries with their vectors, or as they were and the reason why there are none."""
        try:
            vectors = self.places([entry.memory for entry in entries])
        except Exception as error:  # noqa: BLE001 - a memory is never lost to a model, whatever the model does
            reason = f"stored without a vector, `engram upkeep reembed` will add it: {error}"
            self._say(reason)
            return list(entries), reason
        return [replace(entry, vectors=own) for entry, own in zip(entries, vectors, strict=True)], None

    def places(self, memories: Sequence[Memory]) -> list[tuple[Placed, ...]]:
        """The vectors of each memory: one for each passage of what it says, and one for the context of a decision.

        Raises `ModelError`.
        """
        texts = [pieces(joined(memory.context, memory.text), passages) for memory in memories]
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

    def near(self, query: Clean, namespace: str = LONG_TERM, purpose: Purpose = "query") -> Placed | None:
        """The place of a query among the vectors, or `None` when it cannot be embedded."""
        try:
            return Placed(namespace, self.embedder.identity, self._vectors([query], purpose)[0])
        except Exception as error:  # noqa: BLE001 - without a vector the words are still searched
            self._say(f"searching by words only: {error}")
            return None

    def similar(self, context: Clean) -> Placed | None:
        """The place of a situation among those that decisions were taken in."""
        return self.near(context, CONTEXTS, "document")

    def _vectors(self, texts: Sequence[Clean], purpose: Purpose) -> Matrix:
        """What the embedder gives, if it is what an embedder must give."""
        with span("embeddings", "embed"):
            matrix = self.embedder.embed(texts, purpose)
        if matrix.shape != (len(texts), self.embedder.dim) or not is_unit(matrix):
            raise ModelError(f"{self.embedder.identity} gave vectors that are none; run `engram model verify`")
        return matrix


def _situation(memory: Memory) -> list[Clean]:
    """The context of a decision, by which similar ones are found."""
    content = memory.content
    if not isinstance(content, DecisionContent):
        return []
    context = content.decision_context or memory.context
    return [context] if context.strip() else []
