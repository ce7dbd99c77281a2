from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.text.terms import MAX_QUERY_TERMS, MAX_TERM, STOP_WORDS, digest, index_terms, normal_form, query_terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("... !? 🚀", []),
        ("Deployed deploying deploys", ["deploy", "deploy", "deploy"]),
        ("Café CAFÉ cafe\u0301", ["cafe", "cafe", "cafe"]),
        ("ﬁle ① Ａ", ["file", "1", "a"]),
        ("预发布", ["预发", "发布"]),
        ("库", ["库"]),
        ("用PostgreSQL数据", ["用", "postgresql", "postgr", "sql", "数据"]),
        ("getUserName", ["getusernam", "get", "user", "name"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "2"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("NASA Nasa", ["nasa", "nasa"]),
        ("v1.2.3-rc4", ["v1", "2", "3", "rc4"]),
        ("don't", ["don", "t"]),
        ("Straße", ["straße"]),
        ("Привет ПРИВЕТ", ["привет", "привет"]),
        ("ข้อมูล", ["ขอ", "อม", "มล"]),
    ],
)
def test_a_text_is_indexed_by_these_terms(text: str, terms: list[str]) -> None:
    assert index_terms(text) == terms


def test_a_query_looks_for_each_term_once_without_stop_words() -> None:
    assert query_terms("Which of the databases is the database?") == ["databas"]


@pytest.mark.parametrize("text", ["to be or not to be", "the", "what is it?"])
def test_a_query_of_stop_words_only_looks_for_them(text: str) -> None:
    assert query_terms(text)
    assert set(query_terms(text)) <= set(index_terms(text))


def test_stop_words_are_indexed_all_the_same() -> None:
    assert "not" in index_terms("do not deploy")
    assert frozenset({"not", "the"}) <= STOP_WORDS


def test_a_query_has_a_limited_number_of_terms_and_a_term_a_limited_length() -> None:
    assert len(query_terms(" ".join(f"word{i}" for i in range(500)))) == MAX_QUERY_TERMS
    assert index_terms("x" * 10_000) == ["x" * MAX_TERM]


texts = st.text(st.characters(), max_size=200)


@given(texts)
def test_any_text_has_terms_without_spaces_quotes_or_signs(text: str) -> None:
    for term in index_terms(text):
        assert 0 < len(term) <= MAX_TERM
        assert term == term.lower() or not term.isascii()
        assert not [sign for sign in term if sign.isascii() and not sign.isalnum()]


@given(texts)
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    assert set(query_terms(text)) <= set(index_terms(text))


@given(texts, texts)
def test_the_terms_of_lines_are_the_terms_of_each_line(one: str, two: str) -> None:
    assert index_terms(f"{one}\n{two}") == index_terms(one) + index_terms(two)


@given(texts)
def test_composed_and_decomposed_texts_have_the_same_terms(text: str) -> None:
    assert index_terms(unicodedata.normalize("NFD", text)) == index_terms(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("The sky is blue", "the  sky is BLUE."),
        ("The sky is blue", " The sky\n\tis blue "),
        ("Caf\u00e9", "cafe\u0301"),
        ("The sky is blue.", "The sky is blue ."),
        ("ÄRGER", "ärger"),
    ],
)
def test_case_spaces_and_a_final_full_stop_make_no_difference(one: str, two: str) -> None:
    assert normal_form(one) == normal_form(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Staging runs PostgreSQL 15", "Staging runs PostgreSQL 16"),
        ("Version 1.5", "Version 15"),
        ("Version 1.5", "Version 1,5"),
        ("Alice owns it", "Bob owns it"),
        ("Deploy on Friday", "Do not deploy on Friday"),
        ("It can fail", "It can't fail"),
        ("It works", "It works?"),
        ("a < b", "a > b"),
        ("-5 degrees", "5 degrees"),
        ("Muller owns it", "Müller owns it"),
        ("100%", "100"),
        ("a b", "ab"),
        ("x = 1", "x == 1"),
        ("port 8080", "port 8O8O"),
    ],
)
def test_a_number_a_name_or_a_negation_makes_a_difference(one: str, two: str) -> None:
    assert normal_form(one) != normal_form(two)


@given(texts)
def test_spacing_around_a_text_never_matters(text: str) -> None:
    assert normal_form(f" \n{text}\t ") == normal_form(text)


def test_a_digest_tells_where_one_text_ends_and_the_next_begins() -> None:
    digests = [digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", ""), digest("", "abc"), digest()]
    assert len(set(digests)) == len(digests)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_equal_texts_have_equal_digests_and_others_do_not(one: list[str], two: list[str]) -> None:
    assert (digest(*one) == digest(*two)) == (one == two)
