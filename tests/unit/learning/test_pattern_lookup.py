"""Finding a learned pattern by a word."""

from __future__ import annotations

import pytest

from engram.learning.patterns.pattern_lookup import PatternName, find_patterns

PATTERNS = (
    PatternName("1", "retry-with-backoff", ("auth-failure", "retry with backoff")),
    PatternName("2", "timeouterror-in-login", ("TimeoutError: login took too long", "authentication")),
    PatternName("3", "add-an-index", ("slow query", "db")),
    PatternName("4", "add", ("numbers",)),
)


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("retry-with-backoff", "1"),
        ("2", "2"),
        ("add", "4"),
        ("auth-pattern", "12"),
        ("Auth failure", "1"),
        ("db-pattern", "3"),
        ("login", "2"),
        ("pattern", ""),
        ("---", ""),
        ("uth", ""),
        ("auth index", ""),
    ],
)
def test_a_word_means_the_pattern_of_this_name_or_those_about_all_of_it(word: str, ids: str) -> None:
    assert [each.id for each in find_patterns(word, PATTERNS)] == list(ids)
