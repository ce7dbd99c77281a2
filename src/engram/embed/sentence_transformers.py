"""Embed with any sentence-transformers model; the only module that imports that library."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from engram.errors import InvalidInput, MissingExtra, ModelError, ModelUnavailable
from engram.model import Clean
from engram.ports import Matrix, Purpose

_EXTRA = "pip install 'engram-learning[sentence-transformers]'"
_SAMPLE = 1024  # numbers of each weight included in the identity: training changes all of them


class SentenceModel(Protocol):
    """The methods of `SentenceTransformer` that are used; it adds the prompts for queries and documents itself."""

    def encode_query(self, inputs: list[str], *, show_progress_bar: bool, normalize_embeddings: bool) -> Any:
        """Return one row per text, with the model's prompt for queries."""
        ...

    def encode_document(self, inputs: list[str], *, show_progress_bar: bool, normalize_embeddings: bool) -> Any:
        """Return one row per text, with the model's prompt for documents."""
        ...


class SentenceTransformerEmbedder:
    """Embeds with a loaded sentence-transformers model; safe for any number of threads, which take turns."""

    def __init__(self, model: SentenceModel, *, identity: str) -> None:
        self._model, self._identity = model, identity
        self._using = threading.Lock()  # its tokenizers fail when two threads use them
        self._dim = len(self._encode(["dimensions"], "document")[0])

    @property
    def identity(self) -> str:
        """The name, and a hash of weights and settings, such as `st:all-MiniLM-L6-v2@1a2b3c4d`."""
        return self._identity

    @property
    def dim(self) -> int:
        """The length of every vector."""
        return self._dim

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text, in order; texts are cut at the model's maximum length. Raises `ModelError`."""
        if not texts:
            return np.zeros((0, self._dim), dtype=np.float32)
        return self._encode(list(texts), purpose)

    def _encode(self, texts: list[str], purpose: Purpose) -> Matrix:
        encode = self._model.encode_query if purpose == "query" else self._model.encode_document
        with self._using, _translated(f"{self._identity} failed"):
            rows = np.asarray(encode(texts, show_progress_bar=False, normalize_embeddings=True), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3):
            raise ModelError(f"{self._identity} did not return one unit vector per text; use another model")
        return rows


def st(argument: str, key: str | None = None) -> SentenceTransformerEmbedder:
    """Load the embedder for `st:NAME`, a model of the Hugging Face hub, or for `st:FOLDER`.

    Raises `MissingExtra`, `ModelUnavailable`, or `InvalidInput` without a name.
    """
    if not argument:
        raise InvalidInput("st needs the name of a model or its folder, such as st:all-MiniLM-L6-v2")
    try:
        import sentence_transformers  # noqa: PLC0415 - seconds that only those who use it should wait
    except ImportError as error:
        raise MissingExtra(f"st:{argument} needs sentence-transformers ({error}): {_EXTRA}") from error
    folder = Path(argument).expanduser()
    try:
        model: Any = sentence_transformers.SentenceTransformer(str(folder) if folder.is_dir() else argument)
    except Exception as error:  # files, network and torch raise all kinds of errors
        raise ModelUnavailable(
            f"the model {argument} could not be loaded: {_shown(error)}; check its name, or give a folder that has it"
        ) from error
    name = folder.resolve().name if folder.is_dir() else argument.rpartition("/")[2]
    return SentenceTransformerEmbedder(model, identity=f"st:{name}@{fingerprint(model)}")


def fingerprint(model: Any) -> str:
    """Return eight digits that change with the weights, the prompts or the maximum length."""
    state = hashlib.sha256(json.dumps([model.prompts, model.max_seq_length], sort_keys=True).encode())
    for weight in model.parameters():
        state.update(repr(tuple(weight.shape)).encode())
        state.update(weight.detach().flatten()[:_SAMPLE].float().cpu().numpy().tobytes())
    return state.hexdigest()[:8]


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # torch raises all kinds of errors
        raise ModelError(f"{what}: {_shown(error)}; try another model") from error


def _shown(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
