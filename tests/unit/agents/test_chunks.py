"""Content decides where bytes are cut."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.agents.workspaces.chunks import MAX_CHUNK, MIN_CHUNK, WINDOW, find_cuts, split_chunks


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def in_pieces(data: bytes, lengths: list[int]) -> list[bytes]:
    ends = [0, *accumulate(lengths)]
    return [data[a:b] for a, b in zip(ends, [*ends[1:], len(data)], strict=True)]


def test_the_chunks_are_the_bytes_and_keep_to_their_sizes() -> None:
    data = noise(5_000_000)
    found = list(split_chunks([data]))
    assert b"".join(found) == data
    assert all(MIN_CHUNK <= len(chunk) <= MAX_CHUNK for chunk in found[:-1])
    assert 40_000 < len(data) / len(found) < 120_000


@settings(max_examples=30)
@given(st.lists(st.integers(0, 400_000), max_size=8), st.integers(0, 5))
def test_the_chunks_do_not_depend_on_the_pieces(lengths: list[int], seed: int) -> None:
    data = noise(900_000, seed)
    assert list(split_chunks(in_pieces(data, lengths))) == list(split_chunks([data]))


@settings(max_examples=50)
@given(st.binary(max_size=600))
def test_short_data_is_one_chunk(data: bytes) -> None:
    assert list(split_chunks(data[i : i + 1] for i in range(len(data)))) == ([data] if data else [])


@pytest.mark.parametrize("edit", [b"", b"x", b"many words more"])
def test_an_insertion_changes_few_chunks(edit: bytes) -> None:
    data = noise(4_000_000)
    before, after = set(split_chunks([data])), set(split_chunks([data[:1_500_000] + edit + data[1_500_000:]]))
    assert len(after - before) <= 3


def test_a_cut_depends_on_the_last_bytes_only() -> None:
    data = noise(2_000_000)
    places = find_cuts(data)
    assert places
    for place in places:
        assert find_cuts(data[place - WINDOW : place]) == [WINDOW]


def test_data_without_any_cut_is_cut_at_the_largest_size() -> None:
    assert [len(chunk) for chunk in split_chunks([b"\x01" * (2 * MAX_CHUNK + 5)])] == [MAX_CHUNK, MAX_CHUNK, 5]
    assert list(split_chunks([])) == []
