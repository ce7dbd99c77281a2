"""Text for a person's eyes: what a memory says is untrusted, so nothing in it may act on the terminal."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

# Control characters, the ones that reorder or hide text, tags, and halves of surrogate pairs.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = {"\n": "\\n", "\t": "\\t"}
_UNITS = (("w", timedelta(weeks=1)), ("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def block(text: str) -> str:
    r"""The text with its lines kept and everything that could act on a terminal written out, such as `\x1b`."""
    return _ACTING.sub(lambda found: ascii(found[0])[1:-1], text)


def inline(text: str) -> str:
    r"""The same on one line: breaks are written out as `\n`, so nothing is lost."""
    return re.sub("[\n\t]", lambda found: _BREAKS[found[0]], block(text))


def shortened(text: str, length: int) -> str:
    """One line of at most so many characters, for a glance: spaces are collapsed and the end may be missing."""
    line = " ".join(block(text[: 8 * length]).split())
    return line if len(line) <= length and len(text) <= 8 * length else line[: length - 1].rstrip() + "…"


def json_safe(encoded: str) -> str:
    """The same JSON value, with what could act on a terminal as JSON escapes."""
    return _ACTING.sub(lambda found: found[0] if found[0] in "\r\n" else _json_escape(found[0]), encoded)


def moment(when: datetime | None) -> str:
    """A time in UTC, to the second."""
    return "" if when is None else when.strftime("%Y-%m-%d %H:%M:%SZ")


def age(when: datetime, now: datetime) -> str:
    """How long ago it was, in one unit, such as `3d`; `now` for less than a minute, a date for the future."""
    passed = now - when
    if passed < timedelta(0):
        return when.strftime("%Y-%m-%d")
    return next((f"{passed // unit}{name}" for name, unit in _UNITS if passed >= unit), "now")


def many(number: int, noun: str) -> str:
    """`1 attempt`, `3 attempts`, `2 memories`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def size(bytes: float) -> str:
    """A number of bytes as a person reads it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if bytes < 1000:
            return f"{bytes:.0f} {unit}" if unit == "bytes" or bytes >= 10 else f"{bytes:.1f} {unit}"
        bytes /= 1000
    return f"{bytes:.1f} TB"


def masked(url: str) -> str:
    """A database URL without its password."""
    url = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1***", url)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
