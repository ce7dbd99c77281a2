from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.embed.hashing import HashingEmbedder, from_identity, hashing
from engram.errors import InvalidInput
from engram.model import Clean
from engram.testing.embedders import EmbedderContract


class TestHashingKeepsTheContract(EmbedderContract):
    backend = "hashing"

    @pytest.fixture
    def embedder(self) -> HashingEmbedder:
        return HashingEmbedder()


def test_the_vectors_never_change_within_a_revision() -> None:
    vector = HashingEmbedder(8).embed([Clean("Staging runs PostgreSQL 15")])[0]
    pinned = [0.0, 0.83077317, 0.11076976, -0.38769415, 0.33230928, 0.11076976, -0.11076976, -0.11076976]
    assert vector.tolist() == pytest.approx(pinned, abs=1e-7)


@pytest.mark.process
def test_another_process_with_another_hash_seed_gives_the_same_bits() -> None:
    program = (
        "from engram.embed.hashing import HashingEmbedder;"
        "print(HashingEmbedder(32).embed(['Grüße aus Köln, 3 tests failed']).tobytes().hex())"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    here = HashingEmbedder(32).embed([Clean("Grüße aus Köln, 3 tests failed")]).tobytes().hex()
    assert answers == {f"{here}\n".encode()}


def test_case_does_not_matter() -> None:
    upper, lower = HashingEmbedder().embed([Clean("POSTGRESQL"), Clean("postgresql")])
    assert np.array_equal(upper, lower)


def test_inflections_of_a_word_are_near() -> None:
    deploy, deployed, banana = HashingEmbedder().embed([Clean("deploy"), Clean("deployed"), Clean("banana")])
    assert deploy @ deployed > 0.4 > abs(deploy @ banana)


def test_different_texts_without_words_differ() -> None:
    first, second = HashingEmbedder(4096).embed([Clean("!!!"), Clean("???")])
    assert first @ second < 1


@given(st.text(), st.integers(1, 16))
def test_every_text_has_a_vector_of_length_one_even_when_features_cancel(text: str, dim: int) -> None:
    assert np.linalg.norm(HashingEmbedder(dim).embed([Clean(text)])[0]) == pytest.approx(1, abs=1e-6)


def test_the_argument_is_the_number_of_dimensions() -> None:
    assert hashing().identity == "hashing-256@1"
    assert hashing("512").dim == 512


@pytest.mark.parametrize("argument", ["0", "-3", "many", "1e3", "99999999"])
def test_an_argument_that_is_no_dimension_is_refused(argument: str) -> None:
    with pytest.raises(InvalidInput, match="hashing:256"):
        hashing(argument)


def test_an_identity_gives_its_embedder_back() -> None:
    found = from_identity(HashingEmbedder(128).identity)
    assert found is not None
    assert found.dim == 128


@pytest.mark.parametrize("identity", ["minilm@beafa0f3", "hashing-256@2", "hashing-0@1", "hashing-x@1", ""])
def test_a_foreign_identity_gives_none(identity: str) -> None:
    assert from_identity(identity) is None
