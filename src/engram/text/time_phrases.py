"""Read time phrases in plain English ("last week", "in March 2023") as intervals, relative to a given now."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial

MAX_TEXT = 2_000  # characters read: questions are short, and a document is not about one time

_Span = tuple[datetime, datetime]
_Match = re.Match[str]
_Cutter = Callable[[_Match, _Span], _Span | None]
_Reader = Callable[[_Match, datetime], _Span | None]


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of time: `start` inclusive, `end` exclusive; `None` is open. `text[span]` is its phrase."""

    start: datetime | None
    end: datetime | None
    text: str
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Reading:
    """A time phrase, and the interval it means at a given now."""

    at: int
    to: int
    means: Callable[[datetime], _Span | None]
    floats: str | None  # "day", "week" or "year": it recurs that often, and the words do not say which one
    instant: bool = False  # a clock time: before, after, since and until all refer to its start


def intervals(text: str, now: datetime) -> list[Interval]:
    """Return the times named in the first 2,000 characters, in order, without overlaps; the longest reading wins.

    Days begin at midnight in the zone of `now`. A recurring name ("March", "Monday") is the latest that has begun.
    """
    text = text[:MAX_TEXT]
    whole = [
        _Reading(
            m.start(), m.end(), partial(read, m), None if _got(m, "which") or _got(m, "year") else every, every == "day"
        )
        for pattern, read, every in _RULES
        for m in pattern.finditer(text)
    ]
    parts = [
        _Reading(m.start(), reading.to, partial(_cut, cut, m, reading), reading.floats, cut is _at)
        for reading in whole
        for pattern, cut in _PARTS
        if (m := _before(text, reading.at, pattern))
    ]
    parts += [
        _Reading(reading.at, m.end(), partial(_cut, _at, m, reading), reading.floats, True)
        for reading in whole
        if not reading.instant and (m := _CLOCK_AFTER.match(text, reading.to))
    ]
    kept: list[_Reading] = []
    for reading in sorted([*whole, *parts], key=lambda r: (r.at - r.to, r.at)):
        if all(reading.to <= other.at or other.to <= reading.at for other in kept) and _meant(reading, now):
            kept.append(reading)
    return _related(text, sorted(kept, key=lambda r: r.at), now)


def overall(intervals: Iterable[Interval]) -> tuple[datetime | None, datetime | None] | None:
    """Return the interval of several times together, from the earliest start to the latest end; `None` without times.

    Open ones limit each other: "after May and before July" is June.
    """
    spans = [(interval.start, interval.end) for interval in intervals]
    starts, ends = [start for start, _ in spans if start], [end for _, end in spans if end]
    if starts and ends and len(starts) + len(ends) == len(spans) and max(starts) < min(ends):
        return max(starts), min(ends)
    earliest = min(starts) if starts and len(starts) == len(spans) else None
    return (earliest, max(ends) if ends and len(ends) == len(spans) else None) if spans else None


def _meant(reading: _Reading, now: datetime) -> _Span | None:
    """Return what a reading means; `None` for 30 February, 9,000 years ago, or a day that the zone skipped."""
    with suppress(ValueError, OverflowError):
        span = reading.means(now)
        if span and span[0].astimezone(UTC) < span[1].astimezone(UTC):
            return span
    return None


def _cut(cut: _Cutter, m: _Match, reading: _Reading, now: datetime) -> _Span | None:
    whole = reading.means(now)
    return cut(m, whole) if whole else None


def _related(text: str, readings: list[_Reading], now: datetime) -> list[Interval]:
    """Return the readings as intervals, combined with words such as "since", "until" or "between"."""
    found: list[Interval] = []
    while readings:
        reading, *readings = readings
        m = _before(text, reading.at, _RELATION, free=found[-1].span[1] if found else 0)
        how = " ".join(m["how"].lower().split()) if m else "from"
        at, to, (start, end) = m.start() if m else reading.at, reading.to, _meant(reading, now) or (now, now)
        end = start if reading.instant and how not in ("from", "between") else end
        sides = {"since": (start, None), "after": (end, None), "before": (None, start), "prior to": (None, start)}
        first, last = sides.get(how, (None, end))
        if how in ("from", "between"):
            joint = _AND if how == "between" else _TO
            joined = readings and joint.fullmatch(text, to, readings[0].at)
            if joined and (both := _range(reading, readings[0], now)):
                (first, last), to, readings = both, readings[0].to, readings[1:]
            else:
                first, last, at = start, end, reading.at
        found.append(Interval(first, last, text[at:to], (at, to)))
    return found


def _range(first: _Reading, last: _Reading, now: datetime) -> _Span | None:
    """Return the span of two times: "March to May 2023" is in one year, "Monday to Friday" in one week."""
    moment = timedelta(microseconds=1)
    a, b = _meant(first, now), _meant(last, now)
    with suppress(ValueError, OverflowError):
        if a and last.floats:
            b = _meant(last, _step(a[1], last.floats, 1) - moment)
        elif b and first.floats:
            a = _meant(first, b[1] - moment)
    return (a[0], b[1]) if a and b and a[0].astimezone(UTC) < b[1].astimezone(UTC) else None


# The calendar.

_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
_HOURS = {"morning": (4, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}


def _day(day: date, now: datetime, part: str | None = None) -> _Span:
    """Return a day, or its morning, afternoon, evening or night, in the zone of `now`."""
    first, last = _HOURS[part.lower()] if part else (0, 24)
    start = datetime(day.year, day.month, day.day, tzinfo=now.tzinfo)
    return start + timedelta(hours=first), start + timedelta(hours=last)


def _step(moment: datetime, unit: str, n: float) -> datetime:
    """Return the moment `n` units later; a month later is the same day, or the last one of a shorter month."""
    if unit in ("minute", "hour"):  # independent of time zone changes
        return (moment.astimezone(UTC) + timedelta(**{unit + "s": n})).astimezone(moment.tzinfo)
    if unit in ("day", "week"):
        return moment + timedelta(**{unit + "s": n})
    year, month = divmod(moment.year * 12 + moment.month - 1 + int(n) * _MONTHS_IN[unit], 12)
    last = calendar.monthrange(min(max(year, 1), 9999), month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def _calendar(now: datetime, unit: str, n: int = 0) -> _Span:
    """Return the week, weekend, month, quarter or year `n` after the present one; weeks begin on Monday."""
    today = _day(now, now)[0]
    if unit in ("week", "weekend"):
        monday = today + timedelta(7 * n - today.weekday())
        return monday + timedelta(5 if unit == "weekend" else 0), monday + timedelta(7)
    months = _MONTHS_IN[unit]
    start = _step(today.replace(month=(today.month - 1) // months * months + 1, day=1), unit, n)
    return start, _step(start, unit, 1)


def _around(now: datetime, unit: str, n: int) -> _Span:
    """Return what "`n` units from now" means: the longer the unit, the wider."""
    if unit in ("minute", "hour"):
        half = max(1, abs(n) / 2) / 2
        return _step(now, unit, n - half), _step(now, unit, n + half)
    if unit in ("quarter", "year"):
        return _calendar(now, unit, n)
    before, after = {"day": (0, 1), "week": (3, 4), "month": (15, 16)}[unit]
    centre = _step(_day(now, now)[0], unit, n)
    return centre - timedelta(before), centre + timedelta(after)


def _occurrence(make: Callable[[int], _Span], here: int, which: int | None, now: datetime) -> _Span | None:
    """Return the last (-1), this (0) or next (1) of a recurring span, or (`None`) the latest that has begun."""
    known = []
    for place in range(here - 9, here + 10):  # 29 February can be eight years away
        with suppress(ValueError, OverflowError):
            known.append(make(place))
    if which is None or which < 0:
        return max((span for span in known if (span[1] if which else span[0]) <= now), default=None)
    if which > 0:
        return min((span for span in known if span[0] > now), default=None)
    return next((span for span in known if span[0] <= now < span[1]), None) or make(here)


def _yearly(m: _Match, now: datetime, make: Callable[[int], _Span]) -> _Span | None:
    if year := m["year"]:
        return make(int(year) if year.isdigit() else now.year + _WHICH[year.split()[0].lower()])
    return _occurrence(make, now.year, _which(m), now)


def _easter(year: int) -> date:
    """Return Easter Sunday, by the anonymous Gregorian algorithm."""
    golden, century, rest = year % 19, year // 100, year % 100
    moon = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (rest // 4) - moon - rest % 4) % 7
    month, day = divmod(moon + week - 7 * ((golden + 11 * moon + 22 * week) // 451) + 114, 31)
    return date(year, month, day + 1)


_HOLIDAYS: dict[str, Callable[[int], date]] = {
    "(?:christmas|xmas) eve": lambda year: date(year, 12, 24),
    "(?:christmas|xmas)(?: day)?": lambda year: date(year, 12, 25),
    "new year['’]?s eve": lambda year: date(year, 12, 31),
    "new year['’]?s(?: day)?": lambda year: date(year, 1, 1),
    "valentine['’]?s?(?: day)?": lambda year: date(year, 2, 14),
    "good friday": lambda year: _easter(year) - timedelta(2),
    "easter(?: sunday)?": _easter,
    "easter monday": lambda year: _easter(year) + timedelta(1),
    "independence day": lambda year: date(year, 7, 4),
    "halloween": lambda year: date(year, 10, 31),
    "thanksgiving(?: day)?": lambda year: date(year, 11, 28 - (date(year, 11, 28).weekday() - 3) % 7),
}

# The words.

_NUMBERS = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty""".split()
_VAGUE = {"a": (1, 1), "an": (1, 1), "couple": (2, 3), "few": (2, 5), "several": (3, 7), "dozen": (12, 12)}
_COUNTS = {word: (n, n) for n, word in enumerate(_NUMBERS, 1)} | _VAGUE  # the least and the most
_NAMED_HOURS = {"noon": 12, "midday": 12, "midnight": 0}
_ABOUT = {
    "a quarter of an hour": ("minute", -15),
    "half an hour": ("minute", -30),
    "an hour and a half": ("minute", -90),
    "a fortnight": ("week", -2),
}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
_THIRDS = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}
_WHICH = {"last": -1, "previous": -1, "past": -1, "this": 0, "current": 0, "the": 0, "next": 1, "coming": 1}
_UNITS = {unit[0]: unit for unit in ("minute", "hour", "day", "week", "quarter", "year")}
_DAY_NAMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # `calendar` follows the locale
_WEEKDAYS = {name[:3].lower(): n for n, name in enumerate(_DAY_NAMES)}
_NEAR = {"day before yesterday": -2, "yesterday": -1, "last": -1, "tomorrow": 1, "day after tomorrow": 2}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # a winter belongs to the year it begins in
_MONTH_NAMES = "January February March April May June July August September October November December".split()
_MONTHS = {name[:3].lower(): n for n, name in enumerate(_MONTH_NAMES, 1)}
_LEAD = "in|prior to|up to|since|until|till|during|of|by|before|after|from|between|around|early|mid|late"


def _words(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which a blank matches any short white space."""
    return re.compile(pattern.replace(" ", r"(?:[\s\u00a0\u202f]{1,4})"), re.IGNORECASE | re.ASCII)


# "may", "fall", "Sun" and 2022 are times after some words; a second one also after its first ("from 2019 to 2021").
_LED = _words(rf"\b(?:(?:{_LEAD})(?: |-)|(?:between|from) (?:\w+ ){{1,2}}(?:and|to|through|until) )$")
_LED_MONTH = _words(r"\b\d{4}-\d\d(?: ?[-–] ?| (?:and|to|through|until|till) )$")
_LED_NAME = _words(rf"\b(?:{_LEAD}|on|at|for|over|and|to|through)(?: the)?(?: |-)$")
_LED_SEASON = _words(r"\b(?:in|during|over|since|until|early|mid|late)(?: the)?(?: |-)$")
_LED_CLOCK = _words(r"\b(?:at|around|about|since|until|till|by|before|after)(?: the)? $")
_EVERY = _words(r"\b(?:every|each|any) $")
_RELATION = _words(r"\b(?P<how>since|after|until|till|up to|by|before|prior to|between|from)(?: around)?(?: the)? $")
_TO = _words(r" ?[-–] ?| (?:up )?(?:to|through|thru|until|till)(?: the)? ")
_AND = _words(r",? and(?: the)? ")


def _before(text: str, at: int, pattern: re.Pattern[str], free: int = 0) -> _Match | None:
    return pattern.search(text, max(free, at - 60), at)


def _after(m: _Match, lead: re.Pattern[str]) -> bool:
    return _before(m.string, m.start(), lead) is not None


def _got(m: _Match, group: str) -> str | None:
    return m.groupdict().get(group)


def _which(m: _Match) -> int | None:
    return _WHICH[m["which"].split()[-1].lower()] if _got(m, "which") else None


def _count(words: str) -> tuple[int, int]:
    word = " ".join(words.lower().split()).removeprefix("a ").removesuffix(" of")
    return (int(word), int(word)) if word.isdigit() else _COUNTS[word]


def _unit(m: _Match) -> str:
    word = m["unit"].lower()
    return "month" if word.startswith("mo") else _UNITS[word[0]]


def _nth(m: _Match) -> int:
    return int(m["nth"]) if m["nth"].isdigit() else _ORDINALS[m["nth"].lower()]


def _near(m: _Match, now: datetime) -> _Span:
    day = " ".join((_got(m, "day") or "").lower().split())
    return _day(now + timedelta(_NEAR.get(day, 0)), now, m["part"])


def _ago(m: _Match, now: datetime) -> _Span:
    sign = -1 if m["way"].lower() == "ago" else 1
    ends = [_around(now, _unit(m), sign * n) for n in (*_count(m["low"]), *_count(m["high"] or m["low"]))]
    return min(ends)[0], max(ends)[1]


def _rolling(m: _Match, now: datetime) -> _Span | None:
    way, unit, lead, the = m["which"].lower(), _unit(m), m["lead"], m["the"]
    if m["count"]:  # and not "it may last two days"
        clear = way != "last" or the or lead or m.start() == 0
    else:  # "last week" is a week of the calendar, "the past week" is not
        week = unit not in ("minute", "hour", "day")
        clear = way == "past" or (the and ((lead and way != "previous") or (week and way == "last")))
    n = _WHICH[way] * _count(m["count"] or "a")[1]
    there = _step(now, unit, n)
    if unit not in ("minute", "hour"):
        there = _day(there, now)[n > 0]
    return ((there, now) if n < 0 else (now, there)) if clear else None


def _this(m: _Match, now: datetime) -> _Span | None:
    unit, n = m["unit"].lower(), _which(m) or 0
    if way := _got(m, "way"):  # "before last", "after next"
        n = -2 if way[0] in "bB" else 2
    elif m["which"].lower() == "the":  # "over the weekend", "the end of the month", and not "word of the year"
        if unit == "weekend" and _after(m, _LED_NAME):
            n = 0 if _calendar(now, unit)[0] <= now else -1
        elif not any(_after(m, pattern) for pattern, _ in _PARTS):
            return None
    return _calendar(now, unit, n)


def _weekday(m: _Match, now: datetime) -> _Span | None:
    week, which, name = _got(m, "week"), _which(m), m["weekday"]
    led = name[0].isupper() and (week or which is not None or _after(m, _LED_NAME))  # "sat" and "sun" are words
    if not (led or len(name) > 5) or _after(m, _EVERY):
        return None
    if week:
        now, which = _calendar(now, "week", _WHICH[week.lower()])[0], 0
    first = _calendar(now, "week")[0] + timedelta(_WEEKDAYS[name[:3].lower()])
    return _occurrence(lambda n: _day(first + timedelta(7 * n), now, _got(m, "part")), 0, which, now)


def _months(m: _Match, now: datetime) -> _Span | None:
    """Read a month or a season."""
    word = m["month"].lower()
    start, n = (_SEASONS[word], 3) if word in _SEASONS else (_MONTHS[word[:3]], 1)
    return _yearly(m, now, partial(_from, now, start, n)) if m["year"] or _is_month(m) else None


def _from(now: datetime, month: int, n: int, year: int) -> _Span:
    """Return `n` months, starting with one of a year."""
    first = _day(date(year, month, 1), now)[0]
    return first, _step(first, "month", n)


def _is_month(m: _Match) -> bool:
    """Return whether a name without a year is a time: "may", "march" and "fall" are verbs, "Jan" is a name."""
    word, which = m["month"], m["which"] or ""
    if word.lower() in _SEASONS:
        plain = word.lower() not in ("spring", "fall")
        return bool(which) or _after(m, _LED_SEASON) or (plain and _after(m, _LED_NAME))
    if word.lower() != "march" and (word.lower() in ("june", "july") or len(word.rstrip(".")) > 4):
        return True
    if which:  # "this may", and not "this may take long"
        return which[0] not in "tT" or word.istitle() or not re.match(r"\s*\w", m.string[m.end() : m.end() + 9])
    before = m.string[max(0, m.start() - 60) : m.start()].rstrip(" \t\"'(*#>-")
    return _after(m, _LED) or (word in ("May", "March") and before[-1:] not in (*".!?:\n", ""))


def _date(m: _Match, now: datetime) -> _Span | None:
    month, first, last = _MONTHS[m["month"][:3].lower()], _nth(m), int(_got(m, "last") or _nth(m))
    verb = m["month"] in ("may", "march") and m.string[m.end("nth") : m.start("month")].isspace()
    if verb and not m["year"] and not _after(m, _LED_NAME):  # "only 5 may enter"
        return None
    with suppress(ValueError):
        return _yearly(
            m, now, lambda year: (_day(date(year, month, first), now)[0], _day(date(year, month, last), now)[1])
        )
    return _yearly(m, now, partial(_from, now, month, 1))  # 29 February 2025 does not exist; use the month


def _digits(m: _Match, now: datetime) -> _Span:
    year, month, day = int(m["y"]), int(m["m"]), int(m["d"])
    if month > 12 and m.start("m") < m.start("y"):
        month, day = day, month
    if len(m["y"]) == 2:
        year += 2000 if year < 70 else 1900
    return _day(date(year, month, day), now)


def _numbered_month(m: _Match, now: datetime) -> _Span | None:
    return _from(now, int(m["m"]), 1, int(m["y"])) if _after(m, _LED) or _after(m, _LED_MONTH) else None


def _year(m: _Match, now: datetime) -> _Span | None:
    first, last = int(m["first"]), int(m["last"] or m["first"])
    clear = m["word"] or _after(m, _LED)  # and not "room 2022"
    return (_day(date(first, 1, 1), now)[0], _day(date(last, 12, 31), now)[1]) if clear else None


def _holiday(day: Callable[[int], date], m: _Match, now: datetime) -> _Span | None:
    clear = m["which"] or m["year"] or re.search(r"(?:day|eve)$", m["name"].lower()) or _after(m, _LED_NAME)
    return _yearly(m, now, lambda year: _day(day(year), now)) if clear else None


def _clock(words: str) -> tuple[timedelta, timedelta]:
    """Return the time after midnight of a clock time, and its precision. Raises `ValueError`."""
    word = words.lower().replace(".", "").strip()
    if word in _NAMED_HOURS:
        return timedelta(hours=_NAMED_HOURS[word]), timedelta(hours=1)
    hour, _, minute = word.rstrip("apm ").partition(":")
    number, late = int(hour), word.endswith("pm")
    if word.endswith("m"):
        if not 1 <= number <= 12:
            raise ValueError(f"{words} is no time")
        number = number % 12 + 12 * late
    exact = timedelta(minutes=1) if minute else timedelta(hours=1)
    return timedelta(hours=number, minutes=int(minute or 0)), exact


def _at(m: _Match, whole: _Span) -> _Span | None:
    """Read a clock time, or a range of them, on a day or in a part of it, such as a night."""
    if whole[1] - whole[0] > timedelta(1, hours=1):
        return None
    midnight = _day(whole[0], whole[0])[0]
    start, exact = _clock(m["clock"])
    end = _clock(m["until"])[0] if m["until"] else start + exact
    if end <= start:
        return None
    if midnight + start < whole[0] and midnight + start + timedelta(1) < whole[1]:
        midnight += timedelta(1)
    return midnight + start, midnight + end


def _alone(m: _Match, now: datetime) -> _Span | None:
    """Read a clock time without a day: the latest that has begun."""
    plain = not re.search(r"[ap]\.?m", m["clock"], re.IGNORECASE)
    if plain and not m["until"] and m.start() == m.start("clock") and not _after(m, _LED_CLOCK):
        return None
    return _occurrence(lambda n: _at(m, _day(now + timedelta(n), now)) or (now, now), 0, None, now)


def _quarter(m: _Match, now: datetime) -> _Span | None:
    """Read a quarter of a year; "Q1" alone may be a question."""
    word = m["quarter"].lower()
    number = int(word) if word.isdecimal() else _ORDINALS[word]
    clear = m["year"] or _got(m, "which") or _after(m, _LED_NAME)

    def make(year: int) -> _Span:
        first = _day(date(year, 3 * number - 2, 1), now)[0]
        return first, _step(first, "quarter", 1)

    return _yearly(m, now, make) if clear else None


def _some_time_ago(m: _Match, now: datetime) -> _Span:
    word = " ".join(m["ago"].lower().split())
    return _around(now, *_ABOUT[word])


def _third(m: _Match, whole: _Span) -> _Span | None:
    """Return the beginning, middle or end: a third, of a year in months, else in days."""
    start, days, n = whole[0], (whole[1] - whole[0]).days, _THIRDS[m["edge"].lower()]
    if days > 360:
        months = round(days / 30.44)
        return _step(start, "month", months * n // 3), _step(start, "month", months * (n + 1) // 3)
    return start + timedelta(round(days * n / 3)), start + timedelta(round(days * (n + 1) / 3))


def _one_of(m: _Match, whole: _Span) -> _Span | None:
    """Read "the first week of April", "the last Friday of May"."""
    n, (start, end) = _nth(m), whole
    if m["unit"]:
        first = _step(start, _unit(m), n - 1) if n > 0 else _step(end, _unit(m), -1)
        return (first, min(end, _step(first, _unit(m), 1))) if start <= first else None
    weekday = _WEEKDAYS[(m["weekday"] or "sat")[:3].lower()]
    days = [day for k in range((end - start).days) if (day := start + timedelta(k)).weekday() == weekday]
    first = days[n - (n > 0)] if len(days) >= abs(n) else end
    return (first, first + timedelta(2 if m["weekend"] else 1)) if first < end else None


def _beside(m: _Match, whole: _Span) -> _Span:
    """Read "the day before", "two weeks after"."""
    unit, (low, high) = _unit(m), _count(m["count"] or "a")
    if m["side"].lower() == "before":
        return _step(whole[0], unit, -high), _step(whole[0], unit, 1 - low)
    return _step(whole[1], unit, low - 1), _step(whole[1], unit, high)


def _of_day(m: _Match, whole: _Span) -> _Span | None:
    """Read "the morning of" a day, "the week of" a day."""
    if whole[1] - whole[0] > timedelta(1):
        return None
    return _day(whole[0], whole[0], m["part"]) if m["part"] else _calendar(whole[0], "week")


_W = "(?:(?P<which>(?:this |the )?(?:last|previous|past|next|coming)|this|current) )?"
_YYYY = r"(?:19|20)\d\d"
_Y = f"(?:,? (?:of |in )?(?P<year>{_YYYY}|(?:last|this|next) year))?"
_ABBREVIATED = r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?"
_M = f"(?P<month>{'|'.join(_MONTH_NAMES)}|{_ABBREVIATED})"
_S = f"(?P<month>{'|'.join(_SEASONS)})"
_D = f"(?P<weekday>{'|'.join(_DAY_NAMES)}|Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)"
_P = f"(?P<part>{'|'.join(_HOURS)})"
_U = "(?P<unit>minutes?|mins?|hours?|hrs?|days?|weeks?|wks?|months?|quarters?|years?|yrs?)"
_N = r"\d{1,4}|(?:a )?couple(?: of)?|(?:a )?few|several|a dozen|an?|" + "|".join(_NUMBERS)
_NTH = rf"(?P<nth>0?[1-9]|[12]\d|3[01]|{'|'.join(_ORDINALS)})(?:st|nd|rd|th)?"
_TO_NTH = r"(?: ?[-–] ?| (?:to|through|thru|until|till|and) )(?P<last>\d\d?)(?:st|nd|rd|th)?"
_IN = "(?:(?P<lead>in|over|during|within|for|throughout) )?(?P<the>(?:the|this|these) )?"
_ON = f"(?:(?:(?:last|this|next) )?{_D},? )?(?:the )?"
_C = "(?P<unit>weekend|week|month|quarter|year)"
_OTHERS = r"[.,:/]\d|%| (?:words|tokens|items|users|people|rows|lines|files|steps|times|ms)\b"

_T = r"\d{1,2}(?::[0-5]\d)? ?[ap]\.?m\b\.?|(?:[01]?\d|2[0-3]):[0-5]\d(?!:?\d)|noon\b|midday\b|midnight\b"
_RANGE = rf"(?:(?: ?[-–] ?| and | to | until | till )(?P<until>{_T}))?"
_CLOCKS = rf"(?:(?:at|around|about|from|between) )?(?P<clock>{_T}){_RANGE}"
_CLOCK_AFTER = _words(rf"(?:,| on)? {_CLOCKS}")

_READERS: list[tuple[str, _Reader, str | None]] = [
    (f"(?:the )?(?P<day>day before yesterday|yesterday|today|tomorrow|day after tomorrow)(?:,? {_P})?", _near, None),
    (f"(?P<day>last|this) {_P}", _near, None),
    ("to(?P<part>night)", _near, None),
    (rf"(?<!half\s)(?P<low>{_N})(?:(?: ?[-–] ?| or | to )(?P<high>{_N}))? {_U} (?P<way>ago|from now)", _ago, None),
    (rf"(?P<ago>{'|'.join(_ABOUT)}) ago", _some_time_ago, None),
    (_CLOCKS, _alone, "day"),
    (rf"{_W}Q(?P<quarter>[1-4]){_Y}", _quarter, "year"),
    (rf"(?P<year>{_YYYY})(?:-| )?Q(?P<quarter>[1-4])", _quarter, None),
    (rf"(?P<quarter>first|second|third|fourth) quarter{_Y}", _quarter, "year"),
    (rf"{_IN}(?P<which>last|past|previous|next|coming) (?:(?P<count>{_N}) )?{_U}(?! (?:of|before)\b)", _rolling, None),
    (rf"(?P<which>last|previous|past|this past|this|current|next|coming|the) {_C}", _this, None),
    (rf"the {_C} (?P<way>before last|after next)", _this, None),
    (rf"{_W}{_D}(?:,? {_P})?", _weekday, "week"),
    (rf"{_D}(?: of)? (?P<week>last|this|next) week", _weekday, None),
    (rf"{_W}{_M}{_Y}", _months, "year"),
    (rf"{_W}{_S}{_Y}", _months, "year"),
    (rf"{_ON}{_M},? (?:the )?{_NTH}(?!:\d|\.\d|%| ?[ap]m\b){_Y}", _date, "year"),
    (rf"{_ON}{_M} {_NTH}{_TO_NTH}{_Y}", _date, "year"),
    (rf"{_ON}{_NTH}(?: of)? {_M}{_Y}", _date, "year"),
    (rf"{_ON}{_NTH}{_TO_NTH}(?: of)? {_M}{_Y}", _date, "year"),
    (r"(?P<y>\d{4})(?P<by>[-/])(?P<m>\d\d?)(?P=by)(?P<d>\d\d?)(?:T[\d:.]{5,15}(?:Z|[+-]\d\d:?\d\d)?)?", _digits, None),
    (rf"(?P<m>\d\d?)(?P<by>[-/])(?P<d>\d\d?)(?P=by)(?P<y>{_YYYY}|\d\d)", _digits, None),
    (rf"(?P<y>{_YYYY})-(?P<m>0[1-9]|1[0-2])(?![-/]\d)", _numbered_month, None),
    (rf"(?P<word>(?:the )?year )?(?P<first>{_YYYY})(?: ?[-–] ?(?P<last>{_YYYY}))?(?!{_OTHERS})", _year, None),
    *((rf"{_W}(?P<name>{name}){_Y}", partial(_holiday, day), "year") for name, day in _HOLIDAYS.items()),
]
_RULES = [(_words(rf"(?<!\w)(?<!\d[.,:/-])(?:{words})(?!\w)"), read, every) for words, read, every in _READERS]
_PARTS: list[tuple[re.Pattern[str], _Cutter]] = [
    (_words(rf"\b(?:the )?(?:{words})(?:the )?$"), cut)
    for words, cut in (
        ("(?P<edge>early|mid|late)(?: in | |-)", _third),
        ("(?P<edge>beginning|start|middle|end) of ", _third),
        (f"{_NTH} (?:(?P<unit>day|week|month|quarter)|(?P<weekend>weekend)|{_D}) (?:of|in) ", _one_of),
        (rf"(?:(?P<count>{_N}) )?{_U} (?P<side>before|after) ", _beside),
        (f"(?:{_P}|week) of ", _of_day),
        (rf"{_CLOCKS}(?:,| on)? ", _at),
    )
]
