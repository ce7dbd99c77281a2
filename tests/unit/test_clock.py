from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.clock import EPOCH, ID_LENGTH, Sources, aware, from_micros, micros
from engram.testing import FixedSources


def test_an_id_is_plain_and_sorts_by_the_time_it_was_made() -> None:
    sources = FixedSources()
    ids = []
    for _ in range(50):
        ids.append(sources.new_id())
        sources.advance(timedelta(milliseconds=7))
    assert ids == sorted(ids)
    assert all(len(id) == ID_LENGTH and id.isascii() and id.isalnum() and id == id.lower() for id in ids)


@pytest.mark.parametrize("jump", [timedelta(days=-1), timedelta(hours=-1), timedelta(0), timedelta(days=1)])
def test_ids_grow_even_when_the_clock_steps_back_or_stands_still(jump: timedelta) -> None:
    sources = FixedSources()
    ids = [sources.new_id() for _ in range(20)]
    sources.advance(jump)
    ids += [sources.new_id() for _ in range(20)]
    sources.advance(-jump)
    ids += [sources.new_id() for _ in range(20)]
    assert ids == sorted(set(ids))


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=30))
def test_ids_grow_whatever_the_clock_does(jumps: list[int]) -> None:
    sources = FixedSources()
    ids = []
    for jump in jumps:
        sources.advance(timedelta(microseconds=jump))
        ids.append(sources.new_id())
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("year", [1900, 1969, 1970, 2038, 2106, 9999])
def test_any_year_gives_an_id(year: int) -> None:
    sources = FixedSources(datetime(year, 1, 1, tzinfo=UTC))
    first, second = sources.new_id(), sources.new_id()
    assert first < second
    assert len(first) == ID_LENGTH


def test_ids_of_another_source_at_the_same_moment_differ() -> None:
    assert len({Sources().new_id() for _ in range(1000)}) == 1000


def test_threads_never_get_the_same_id_and_each_sees_its_own_grow() -> None:
    sources, made = Sources(), [list[str]() for _ in range(8)]

    def work(mine: list[str]) -> None:
        mine.extend(sources.new_id() for _ in range(2000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({id for mine in made for id in mine}) == 16_000


def test_the_clock_is_in_utc_and_exact_to_the_microsecond() -> None:
    before = datetime.now(UTC)
    now = Sources().now()
    assert now.tzinfo is UTC
    assert abs(now - before) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("moment", "value"),
    [
        (EPOCH, 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), -1),
        (datetime(1900, 1, 1, tzinfo=UTC), -2208988800 * 10**6),
        (datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC), 2**32 * 10**6),
        (datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC), 2**31 * 10**6 + 1),
        (datetime(2026, 3, 29, 3, 0, tzinfo=timezone(timedelta(hours=2))), 1774746000 * 10**6),
        (datetime(1970, 1, 1), 0),
    ],
)
def test_moments_are_microseconds_since_1970(moment: datetime, value: int) -> None:
    assert micros(moment) == value
    assert micros(from_micros(value)) == value


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_moment_comes_back_exactly(moment: datetime) -> None:
    assert from_micros(micros(moment)) == moment
    assert from_micros(micros(moment)).tzinfo is UTC


FIRST, LAST = datetime(1, 1, 3), datetime(9999, 12, 29)


@given(st.datetimes(FIRST, LAST) | st.datetimes(FIRST, LAST, timezones=st.timezones()))
def test_any_time_zone_gives_the_same_moment_in_utc_and_none_means_utc(moment: datetime) -> None:
    seen = aware(moment)
    assert seen.tzinfo is UTC
    expected = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    assert seen.timestamp() == expected.timestamp()  # an hour that a clock skips is equal to no other time
    assert aware(seen) == seen


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_microseconds_sort_as_moments_do(one: datetime, two: datetime) -> None:
    assert (micros(one) < micros(two)) == (one < two)
