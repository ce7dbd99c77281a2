"""Time phrases in plain English are read as intervals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.text.time_phrases import MAX_TEXT, intervals, overall

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)  # a Wednesday

# What is said | from | until | the words that say it, where they are not all of it.
CASES = """
today                            | 2026-11-18       | 2026-11-19
tonight                          | 2026-11-18 18:00 | 2026-11-19 06:00
this morning                     | 2026-11-18 04:00 | 2026-11-18 12:00
this afternoon                   | 2026-11-18 12:00 | 2026-11-18 18:00
this evening                     | 2026-11-18 17:00 | 2026-11-19
yesterday                        | 2026-11-17       | 2026-11-18
did I run yesterday morning?     | 2026-11-17 04:00 | 2026-11-17 12:00 | yesterday morning
yesterday night                  | 2026-11-17 18:00 | 2026-11-18 06:00
last night                       | 2026-11-17 18:00 | 2026-11-18 06:00
the day before yesterday         | 2026-11-16       | 2026-11-17
tomorrow                         | 2026-11-19       | 2026-11-20
the day after tomorrow           | 2026-11-20       | 2026-11-21

10 mins ago                      | 2026-11-18 15:17:30 | 2026-11-18 15:22:30
an hour ago                      | 2026-11-18 14:00 | 2026-11-18 15:00
3 days ago                       | 2026-11-15       | 2026-11-16
a dozen days ago                 | 2026-11-06       | 2026-11-07
a couple of days ago             | 2026-11-15       | 2026-11-17
two or three days ago            | 2026-11-15       | 2026-11-17
a few weeks ago                  | 2026-10-11       | 2026-11-08
a week ago                       | 2026-11-08       | 2026-11-15
half an hour ago                 | 2026-11-18 14:52:30 | 2026-11-18 15:07:30
a fortnight ago                  | 2026-11-01       | 2026-11-08
at 3:47pm                        | 2026-11-17 15:47 | 2026-11-17 15:48
at 3pm                           | 2026-11-18 15:00 | 2026-11-18 16:00
at noon                          | 2026-11-18 12:00 | 2026-11-18 13:00
yesterday at 15:47               | 2026-11-17 15:47 | 2026-11-17 15:48
at 3 p.m. yesterday              | 2026-11-17 15:00 | 2026-11-17 16:00
yesterday between 2pm and 4pm    | 2026-11-17 14:00 | 2026-11-17 16:00
from 9:00 to 11:30 today         | 2026-11-18 09:00 | 2026-11-18 11:30
last night at 2am                | 2026-11-18 02:00 | 2026-11-18 03:00
March 10th at 3:47pm             | 2026-03-10 15:47 | 2026-03-10 15:48
since 9am                        | 2026-11-18 09:00 | -
after 2pm on Monday              | 2026-11-16 14:00 | -
until 3pm yesterday              | -                | 2026-11-17 15:00
Q1 2026                          | 2026-01-01       | 2026-04-01
what happened in Q3?             | 2026-07-01       | 2026-10-01       | Q3
2025-Q2                          | 2025-04-01       | 2025-07-01
Q4 of last year                  | 2025-10-01       | 2026-01-01
two weeks ago                    | 2026-11-01       | 2026-11-08
2-3 weeks ago                    | 2026-10-25       | 2026-11-08
3 months ago                     | 2026-08-03       | 2026-09-03
several months ago               | 2026-04-03       | 2026-09-03
2 years ago                      | 2024-01-01       | 2025-01-01
twenty years ago                 | 2006-01-01       | 2007-01-01
3 days from now                  | 2026-11-21       | 2026-11-22

in the last 3 days               | 2026-11-15       | 2026-11-18 15:30
over the past two weeks          | 2026-11-04       | 2026-11-18 15:30
the last few weeks               | 2026-10-14       | 2026-11-18 15:30
in the past week                 | 2026-11-11       | 2026-11-18 15:30
during the last month            | 2026-10-18       | 2026-11-18 15:30
within the last 2 years          | 2024-11-18       | 2026-11-18 15:30
the last 24 hours                | 2026-11-17 15:30 | 2026-11-18 15:30
in the next two weeks            | 2026-11-18 15:30 | 2026-12-03

what did I buy LAST  WEEK?       | 2026-11-09       | 2026-11-16       | LAST  WEEK
this week                        | 2026-11-16       | 2026-11-23
next week                        | 2026-11-23       | 2026-11-30
the week before last             | 2026-11-02       | 2026-11-09
previous month                   | 2026-10-01       | 2026-11-01
next month                       | 2026-12-01       | 2027-01-01
last year                        | 2025-01-01       | 2026-01-01
this quarter                     | 2026-10-01       | 2027-01-01
last quarter                     | 2026-07-01       | 2026-10-01
last weekend                     | 2026-11-14       | 2026-11-16
this weekend                     | 2026-11-21       | 2026-11-23
over the weekend                 | 2026-11-14       | 2026-11-16       | the weekend

on Monday                        | 2026-11-16       | 2026-11-17       | Monday
on Wednesday                     | 2026-11-18       | 2026-11-19       | Wednesday
last wednesday                   | 2026-11-11       | 2026-11-12
last Monday                      | 2026-11-16       | 2026-11-17
past Friday                      | 2026-11-13       | 2026-11-14
this Friday                      | 2026-11-20       | 2026-11-21
next Monday                      | 2026-11-23       | 2026-11-24
Monday morning                   | 2026-11-16 04:00 | 2026-11-16 12:00
on Tues                          | 2026-11-17       | 2026-11-18       | Tues
Monday of last week              | 2026-11-09       | 2026-11-10
Friday's is a restaurant         | 2026-11-13       | 2026-11-14       | Friday

in March                         | 2026-03-01       | 2026-04-01       | March
in november                      | 2026-11-01       | 2026-12-01       | november
in December                      | 2025-12-01       | 2026-01-01       | December
we met that May                  | 2026-05-01       | 2026-06-01       | May
what did I buy last may in Rome  | 2026-05-01       | 2026-06-01       | last may
March 2023                       | 2023-03-01       | 2023-04-01
in Feb. 2024                     | 2024-02-01       | 2024-03-01       | Feb. 2024
this March                       | 2026-03-01       | 2026-04-01
last March                       | 2026-03-01       | 2026-04-01
last December                    | 2025-12-01       | 2026-01-01
next March                       | 2027-03-01       | 2027-04-01
in March of last year            | 2025-03-01       | 2025-04-01       | March of last year
early March                      | 2026-03-01       | 2026-03-11
mid-march                        | 2026-03-11       | 2026-03-22
late March                       | 2026-03-22       | 2026-04-01

March 5                          | 2026-03-05       | 2026-03-06
may 5                            | 2026-05-05       | 2026-05-06
on December 24                   | 2025-12-24       | 2025-12-25       | December 24
March 5th, 2023                  | 2023-03-05       | 2023-03-06
Monday, May 8, 2023              | 2023-05-08       | 2023-05-09
1:56 pm on 8 May, 2023           | 2023-05-08 13:56 | 2023-05-08 13:57
the 5th of March                 | 2026-03-05       | 2026-03-06
the first of May                 | 2026-05-01       | 2026-05-02
February 29                      | 2024-02-29       | 2024-03-01
February 30                      | 2026-02-01       | 2026-03-01       | February
2023-05-08                       | 2023-05-08       | 2023-05-09
2023-05-08T10:00:00Z             | 2023-05-08       | 2023-05-09
2023/05/08                       | 2023-05-08       | 2023-05-09
05/08/2023                       | 2023-05-08       | 2023-05-09
25/08/2023                       | 2023-08-25       | 2023-08-26
5/8/99                           | 1999-05-08       | 1999-05-09
May 8–10                         | 2026-05-08       | 2026-05-11
8-10 May 2023                    | 2023-05-08       | 2023-05-11

in 2022                          | 2022-01-01       | 2023-01-01       | 2022
the year 2020                    | 2020-01-01       | 2021-01-01
in 2019–2021                     | 2019-01-01       | 2022-01-01       | 2019–2021
the summer of 2021               | 2021-06-01       | 2021-09-01       | summer of 2021
last summer                      | 2026-06-01       | 2026-09-01
this winter                      | 2026-12-01       | 2027-03-01
last winter                      | 2025-12-01       | 2026-03-01
fall 2023                        | 2023-09-01       | 2023-12-01
in the spring                    | 2026-03-01       | 2026-06-01       | spring

the first week of April          | 2026-04-01       | 2026-04-08
the last week of February 2024   | 2024-02-23       | 2024-03-01
the last Friday of May           | 2026-05-29       | 2026-05-30
the first weekend of June        | 2026-06-06       | 2026-06-08
second quarter of 2025           | 2025-04-01       | 2025-07-01
the end of May                   | 2026-05-22       | 2026-06-01
the beginning of 2023            | 2023-01-01       | 2023-05-01
late last year                   | 2025-09-01       | 2026-01-01
the end of the month             | 2026-11-21       | 2026-12-01
the week of May 8                | 2026-05-04       | 2026-05-11
the morning of May 8             | 2026-05-08 04:00 | 2026-05-08 12:00
two days after March 1, 2024     | 2024-03-03       | 2024-03-04
the week before March 5          | 2026-02-26       | 2026-03-05

since March                      | 2026-03-01       | -
since the end of May 2023        | 2023-05-22       | -
after last week                  | 2026-11-16       | -
before March 5                   | -                | 2026-03-05
prior to 2022                    | -                | 2022-01-01
until March                      | -                | 2026-04-01
by Friday                        | -                | 2026-11-14
between May and July             | 2026-05-01       | 2026-08-01
between march and may            | 2026-03-01       | 2026-06-01
from March to May 2023           | 2023-03-01       | 2023-06-01
May 2023 to July                 | 2023-05-01       | 2023-08-01
Dec 24 - Jan 2                   | 2025-12-24       | 2026-01-03
from 2019 to 2021                | 2019-01-01       | 2022-01-01
in 2026-03                       | 2026-03-01       | 2026-04-01       | 2026-03
February 29, 2025                | 2025-02-01       | 2025-03-01
31 April last year               | 2025-04-01       | 2025-05-01
since 2025-12                    | 2025-12-01       | -
between 2026-03 and 2026-05      | 2026-03-01       | 2026-06-01
On March 5 and 50 people came    | 2026-03-05       | 2026-03-06       | March 5
Monday to Friday                 | 2026-11-16       | 2026-11-21
from Monday until yesterday      | 2026-11-16       | 2026-11-18
from May 8 to 10                 | 2026-05-08       | 2026-05-11       | May 8 to 10

last Christmas                   | 2025-12-25       | 2025-12-26
Christmas Eve 2024               | 2024-12-24       | 2024-12-25
on Valentine's day               | 2026-02-14       | 2026-02-15       | Valentine's day
New Year’s Eve                   | 2025-12-31       | 2026-01-01
New Year's Day                   | 2026-01-01       | 2026-01-02
at Halloween                     | 2026-10-31       | 2026-11-01       | Halloween
last thanksgiving                | 2025-11-27       | 2025-11-28
next Thanksgiving                | 2026-11-26       | 2026-11-27
July 4th                         | 2026-07-04       | 2026-07-05
Independence Day 2025            | 2025-07-04       | 2025-07-05
Easter 2024                      | 2024-03-31       | 2024-04-01
this Easter                      | 2026-04-05       | 2026-04-06
the day after Christmas          | 2025-12-26       | 2025-12-27
""".strip().splitlines()

NO_TIME = """
I may go
May I go?
This may take long.
the may flower
only 5 may enter
march on
March on!
a second ago
a second opinion
Jan said so
room 2022
in 2000 words
version 2.0
2.5 years ago
the ratio is 15:47
the 10:30 train
Q1 of the form
between 4pm and 2pm
at 13pm
every Monday
on Mondays
the sun rose and I sat
leaves fall
to spring up
a christmas tree
word of the year
it may last two days
my last day
2023-02-30
2026-13
13/13/2023
9999 years ago
""".strip().splitlines()


def moment(text: str) -> datetime | None:
    return None if text == "-" else datetime.fromisoformat(text).replace(tzinfo=UTC)


def said(text: str, now: datetime = NOW) -> list[tuple[datetime | None, datetime | None]]:
    return [(interval.start, interval.end) for interval in intervals(text, now)]


@pytest.mark.parametrize("case", [case for case in CASES if case])
def test_a_time_is_read_as_an_interval(case: str) -> None:
    text, start, end, *words = (field.strip() for field in case.split("|"))
    found = intervals(text, NOW)
    assert [(i.start, i.end, i.text) for i in found] == [(moment(start), moment(end), words[0] if words else text)]


@pytest.mark.parametrize("text", NO_TIME)
def test_what_names_no_time_is_not_read(text: str) -> None:
    assert intervals(text, NOW) == []


def test_several_times_are_found_in_order() -> None:
    found = intervals("Last week I paid; the refund came yesterday.", NOW)
    assert [interval.text for interval in found] == ["Last week", "yesterday"]
    assert found[1].span == (34, 43)


def test_separate_times_together_are_their_hull() -> None:
    assert overall(intervals("in March and in June", NOW)) == (moment("2026-03-01"), moment("2026-07-01"))
    assert overall(intervals("since March or yesterday", NOW)) == (moment("2026-03-01"), None)
    assert overall(intervals("between May and July", NOW)) == (moment("2026-05-01"), moment("2026-08-01"))
    assert overall([]) is None


def test_open_times_limit_each_other() -> None:
    assert overall(intervals("after May and before July", NOW)) == (moment("2026-06-01"), moment("2026-07-01"))
    assert overall(intervals("before May or after July", NOW)) == (None, None)


def test_days_begin_at_midnight_in_the_zone_of_now() -> None:
    tokyo = timezone(timedelta(hours=9))
    [interval] = intervals("today", datetime(2026, 11, 18, 22, tzinfo=UTC).astimezone(tokyo))
    assert (interval.start, interval.end) == (
        datetime(2026, 11, 19, tzinfo=tokyo),
        datetime(2026, 11, 20, tzinfo=tokyo),
    )
    assert interval.start is not None
    assert interval.start.tzinfo is tokyo


def test_months_and_years_end_where_the_calendar_says() -> None:
    leap, plain = datetime(2024, 3, 31, tzinfo=UTC), datetime(2023, 3, 31, tzinfo=UTC)
    assert said("in the past month", leap)[0][0] == moment("2024-02-29")
    assert said("in the past month", plain)[0][0] == moment("2023-02-28")
    assert said("in the past year", datetime(2024, 2, 29, tzinfo=UTC))[0][0] == moment("2023-02-28")
    assert said("last month", datetime(2026, 1, 31, tzinfo=UTC)) == [(moment("2025-12-01"), moment("2026-01-01"))]
    assert said("this winter", datetime(2026, 1, 31, tzinfo=UTC)) == [(moment("2025-12-01"), moment("2026-03-01"))]


def test_a_long_text_is_read_only_at_its_beginning() -> None:
    assert intervals("x" * MAX_TEXT + " yesterday", NOW) == []
    assert [interval.text for interval in intervals("yesterday " * 100_000, NOW)] == ["yesterday"] * (MAX_TEXT // 10)


@pytest.mark.parametrize(("year", "day"), [(1970, "03-29"), (2000, "04-23"), (2008, "03-23"), (2038, "04-25")])
def test_easter_moves(year: int, day: str) -> None:
    assert said(f"Easter {year}")[0][0] == moment(f"{year}-{day}")


zones = st.sampled_from([UTC, *map(timezone, map(timedelta, (0.5, -0.25)))]) | st.sampled_from(
    [UTC, *map(ZoneInfo, sorted(available_timezones()))]
)
nows = st.datetimes(datetime(1970, 1, 1), datetime(2100, 12, 31), timezones=zones)
fragments = st.sampled_from(
    """a an the this last past next of in on since until before after between from to and - – , . ago now week weeks
    weekend month months years hours minutes quarter day days morning night first second 1 2 3rd 29 31 0 9999 2023 2100
    may May march February Feb. Sun Monday today tonight yesterday early mid late end beginning winter fall Christmas
    Easter New Year's Eve few couple 2011-12-30 02/29/2024 yeſterday weeK ٣""".split()
)
texts = st.text(max_size=60) | st.lists(fragments, max_size=14).map(" ".join)


@given(texts, nows)
def test_any_text_gives_stretches_of_time_in_order_and_inside_it(text: str, now: datetime) -> None:
    free = 0
    for interval in intervals(text, now):
        first, last = interval.span
        assert free <= first < last <= len(text)
        assert text[first:last] == interval.text
        free = last
        ends = [end.astimezone(UTC) for end in (interval.start, interval.end) if end]
        assert len(ends) == 1 or ends[0] < ends[1]
        assert all(end.tzinfo is now.tzinfo for end in (interval.start, interval.end) if end)
