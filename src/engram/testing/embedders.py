"""Contract tests of embedders: subclass `EmbedderContract` and provide the fixture `embedder`."""

from __future__ import annotations

import numpy as np
import pytest

from engram.model import Clean
from engram.ports import Embedder

_ODD_TEXTS = {
    "empty": "",
    "blank": " \n\t ",
    "punctuation": "?!… — ***",
    "emoji": "🚀🔥 shipped 👩‍👩‍👧‍👦 \U0001f1e9\U0001f1ea",
    "right to left": "قاعدة البيانات في بيئة الاختبار · מסד הנתונים",
    "chinese": "预发布环境使用哪个数据库？",
    "combining marks": "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘",
    "ten thousand words": "staging runs another database " * 2500,
    "one endless word": "a" * 20_000,
    "control characters": "tab\tbell\x07escape\x1b[31m",
}


class EmbedderContract:
    """Contract tests of embedders."""

    texts = (
        Clean("The staging database is PostgreSQL 15"),
        Clean("Release day is Thursday, after the stand-up meeting of the platform team in the large room"),
        Clean("Tea"),
        Clean("Bananas are yellow when they are ripe, and brown when nobody ate them in time"),
    )
    """Texts of different lengths; the first is about databases, the last is not."""

    near_to_the_first = Clean("In staging the database is PostgreSQL")

    same = 0.9999
    """The least cosine between two embeddings of the same text."""

    def test_is_an_embedder(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)

    def test_one_row_of_32_bit_floats_per_text(self, embedder: Embedder) -> None:
        rows = embedder.embed(self.texts)
        assert rows.shape == (len(self.texts), embedder.dim)
        assert rows.dtype == np.float32

    def test_every_vector_has_length_one(self, embedder: Embedder) -> None:
        assert np.allclose(np.linalg.norm(embedder.embed(self.texts), axis=1), 1, atol=1e-5)

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        rows = embedder.embed([])
        assert rows.shape == (0, embedder.dim)
        assert rows.dtype == np.float32

    def test_a_batch_gives_what_single_texts_give_in_order(self, embedder: Embedder) -> None:
        batch = embedder.embed(self.texts)
        single = np.concatenate([embedder.embed([text]) for text in self.texts])
        assert np.all(np.sum(batch * single, axis=1) >= self.same)

    def test_the_order_of_texts_is_the_order_of_rows(self, embedder: Embedder) -> None:
        forward = embedder.embed(self.texts)
        backward = embedder.embed(self.texts[::-1])
        assert np.all(np.sum(forward * backward[::-1], axis=1) >= self.same)

    def test_the_same_text_gives_the_same_vector(self, embedder: Embedder) -> None:
        assert np.array_equal(embedder.embed(self.texts), embedder.embed(self.texts))

    def test_the_identity_names_the_model_and_its_revision_and_stays(self, embedder: Embedder) -> None:
        before = embedder.identity
        embedder.embed(self.texts)
        assert embedder.identity == before
        name, _, revision = before.partition("@")
        assert name
        assert revision

    def test_queries_and_documents_share_one_space(self, embedder: Embedder) -> None:
        query = embedder.embed(self.texts[:1], "query")
        assert query.shape == (1, embedder.dim)
        assert np.isclose(np.linalg.norm(query), 1, atol=1e-5)

    def test_similar_texts_are_closer_than_unrelated_ones(self, embedder: Embedder) -> None:
        first, similar, unrelated = embedder.embed([self.texts[0], self.near_to_the_first, self.texts[-1]])
        assert first @ similar > first @ unrelated

    @pytest.mark.parametrize("text", _ODD_TEXTS.values(), ids=_ODD_TEXTS.keys())
    def test_any_text_gives_a_vector(self, embedder: Embedder, text: str) -> None:
        rows = embedder.embed([Clean(text), self.texts[0]])
        assert np.all(np.isfinite(rows))
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        assert np.sum(rows[1] * embedder.embed(self.texts[:1])[0]) >= self.same

    def test_the_texts_given_are_left_as_they_are(self, embedder: Embedder) -> None:
        given = list(self.texts)
        embedder.embed(given, "query")
        assert given == list(self.texts)
