from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from engram.embed.models import Models
from engram.embed.onnx import OnnxEmbedder, Recipe, choose_output, pooled
from engram.errors import MissingExtra, ModelError, ModelUnavailable
from engram.model import Clean
from engram.ports import Embedder, Matrix
from engram.testing.embedders import EmbedderContract

SHARED = Path(sys.prefix) / "share" / "engram" / "models"


@pytest.fixture(scope="session")
def arctic() -> Path:
    return Models(target=SHARED).install("arctic-embed-s")


@pytest.fixture(scope="session")
def minilm() -> Path:
    return Models(target=SHARED).install("minilm")


@pytest.fixture(scope="session")
def arctic_embedder(arctic: Path) -> Embedder:
    return Models(target=SHARED).load("arctic-embed-s")


@pytest.fixture(scope="session")
def minilm_embedder(minilm: Path) -> Embedder:
    return Models(target=SHARED).load("minilm")


class TestArcticKeepsTheContract(EmbedderContract):
    backend = "arctic-embed-s (ONNX)"

    @pytest.fixture
    def embedder(self, arctic_embedder: Embedder) -> Embedder:
        return arctic_embedder


class TestMinilmKeepsTheContract(EmbedderContract):
    backend = "all-MiniLM-L6-v2 (ONNX)"

    @pytest.fixture
    def embedder(self, minilm_embedder: Embedder) -> Embedder:
        return minilm_embedder


def using(folder: Path, recipe: Recipe, dim: int | None = None) -> OnnxEmbedder:
    return OnnxEmbedder(folder / "model.onnx", folder / "tokenizer.json", identity="test@1", recipe=recipe, dim=dim)


QUESTION = Clean("which database runs in staging?")
ANSWER = Clean("Staging uses PostgreSQL 15")
NOTES = [
    Clean("The production cluster was upgraded on Monday"),
    ANSWER,
    Clean("Alice asked which tests run before a release"),
    Clean("Which way to the station? Run, the train is leaving"),
    Clean("The design document describes the staging of the play"),
]


def test_a_question_finds_its_answer_among_sentences_that_share_its_words(arctic_embedder: Embedder) -> None:
    scores = arctic_embedder.embed(NOTES) @ arctic_embedder.embed([QUESTION], "query")[0]
    assert NOTES[int(np.argmax(scores))] == ANSWER


def test_a_query_and_only_a_query_gets_the_prefix_of_its_model(arctic_embedder: Embedder) -> None:
    prefixed = Clean(f"Represent this sentence for searching relevant passages: {QUESTION}")
    (query,) = arctic_embedder.embed([QUESTION], "query")
    plain, spelt_out = arctic_embedder.embed([QUESTION, prefixed])
    assert np.array_equal(query, spelt_out)
    assert query @ plain < 0.95


def test_a_vector_does_not_depend_on_the_texts_beside_it(minilm_embedder: Embedder) -> None:
    beside = [Clean("x " * 300), ANSWER, Clean("ok"), Clean("🚀")]
    assert np.array_equal(minilm_embedder.embed(beside)[1], minilm_embedder.embed([ANSWER])[0])


def test_what_goes_beyond_the_maximum_length_is_not_read(minilm: Path) -> None:
    embedder = using(minilm, Recipe(max_length=4))
    rows = embedder.embed([Clean("red wine"), Clean("red wine and cheese"), Clean("red beer")])
    assert np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])


def test_the_dimension_is_found_out_when_it_is_not_given(minilm: Path) -> None:
    assert using(minilm, Recipe()).dim == 384


def test_pooling_changes_the_vector(minilm: Path) -> None:
    mean, cls = (using(minilm, Recipe(pooling=how)).embed([ANSWER])[0] for how in ("mean", "cls"))
    assert mean @ cls < 0.99


@pytest.mark.model
def test_the_constructor_reads_no_file_and_the_first_use_says_what_is_missing(tmp_path: Path) -> None:
    embedder = using(tmp_path / "nowhere", Recipe(), dim=384)
    assert embedder.embed([]).shape == (0, 384)
    with pytest.raises(ModelUnavailable, match=r"nowhere.*engram model list"):
        embedder.embed([ANSWER])


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_broken_file_is_a_model_error(minilm: Path, tmp_path: Path, broken: str) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).symlink_to(minilm / name)
    (tmp_path / broken).unlink()
    (tmp_path / broken).write_bytes(b"this is neither")
    with pytest.raises(ModelError, match="engram model verify"):
        using(tmp_path, Recipe()).embed([ANSWER])


def test_text_the_tokenizer_refuses_is_a_model_error(minilm: Path) -> None:
    with pytest.raises(ModelError, match="test@1 failed"):
        using(minilm, Recipe()).embed([Clean("half a pair: \ud83d")])


def test_many_threads_may_start_together(minilm: Path) -> None:
    embedder = using(minilm, Recipe())
    expected = using(minilm, Recipe()).embed(NOTES)
    start = threading.Barrier(8)
    answers: list[Matrix] = []

    def work() -> None:
        start.wait()
        answers.append(embedder.embed(NOTES))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(np.array_equal(answer, expected) for answer in answers)


FORK = """
import os, sys
from pathlib import Path
from engram.embed.onnx import OnnxEmbedder, Recipe
folder = Path(sys.argv[1])
embedder = OnnxEmbedder(folder / "model.onnx", folder / "tokenizer.json", identity="f@1", recipe=Recipe())
before = embedder.embed(["one", "two"])
child = os.fork()
if child == 0:
    sys.exit(0 if (embedder.embed(["one", "two"]) == before).all() else 9)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_can_embed_and_exit(minilm: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(minilm)], check=True, timeout=60)


THREADS = """
import os, sys
from pathlib import Path
import numpy
from engram.embed.onnx import OnnxEmbedder, Recipe
folder = Path(sys.argv[1])
before = len(os.listdir("/proc/self/task"))
embedder = OnnxEmbedder(folder / "model.onnx", folder / "tokenizer.json", identity="f@1", recipe=Recipe())
embedder.embed(["one"])
assert len(os.listdir("/proc/self/task")) == before
assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="cannot count threads here")
def test_loading_starts_no_thread_that_could_report_to_anybody(minilm: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", THREADS, str(minilm)], check=True, timeout=60, env=environment)


@pytest.mark.process
def test_importing_the_embedders_imports_neither_library() -> None:
    program = "import sys, engram.embed.models; print({'onnxruntime', 'tokenizers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


@pytest.mark.model
def test_a_missing_library_is_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match="pip install tokenizers"):
        using(tmp_path, Recipe())


class Tensor(NamedTuple):
    name: str
    shape: Sequence[int | str | None]


TOKENS = Tensor("last_hidden_state", ["batch", "sequence", 384])
POOLER = Tensor("pooler_output", ["batch", 384])
FINISHED = Tensor("sentence_embedding", ["batch", 384])
SCALAR = Tensor("loss", [])


@pytest.mark.parametrize(
    ("outputs", "chosen"),
    [
        ([TOKENS], "last_hidden_state"),
        ([POOLER, TOKENS], "last_hidden_state"),
        ([TOKENS, FINISHED], "sentence_embedding"),
        ([SCALAR, Tensor("output_0", [None, 256])], "output_0"),
    ],
)
def test_finished_vectors_go_before_token_vectors_and_those_before_others(outputs: list[Tensor], chosen: str) -> None:
    assert choose_output(outputs) == chosen


def test_a_model_without_vectors_is_refused() -> None:
    with pytest.raises(ModelError, match="sentence-embedding model"):
        choose_output([SCALAR])


def test_cls_takes_the_first_token_mean_takes_all_and_pooled_rows_stay() -> None:
    tokens = np.array([[3, 4], [5, 12]], dtype=np.float32)
    assert pooled(tokens, "cls") == pytest.approx([0.6, 0.8])
    assert pooled(tokens, "mean") == pytest.approx(np.array([4, 8]) / np.sqrt(80))
    assert pooled(tokens[0], "mean") == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("value", [0, np.nan, np.inf])
def test_a_zero_or_non_finite_vector_is_an_error(value: float) -> None:
    with pytest.raises(ModelError, match="zero or non-finite vector"):
        pooled(np.array([value, 0], dtype=np.float32), "mean")
