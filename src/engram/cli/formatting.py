"""Format text, times and numbers for a terminal; control characters in stored text are always escaped."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

# Control characters, the ones that reorder or hide text, tags, and halves of surrogate pairs.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = {"\n": "\\n", "\t": "\\t"}
_UNITS = (("w", timedelta(weeks=1)), ("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def escaped(text: str) -> str:
    r"""Escape control characters, such as `\x1b`; line breaks and tabs are kept."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Escape control characters, line breaks (`\n`) and tabs, so that the text fits on one line."""
    return re.sub("[\n\t]", lambda match: _BREAKS[match[0]], escaped(text))


def truncated(text: str, length: int) -> str:
    """Return one line of at most `length` characters: runs of spaces are collapsed, and the end may be cut off."""
    line = " ".join(escaped(text[: 8 * length]).split())
    return line if len(line) <= length and len(text) <= 8 * length else line[: length - 1].rstrip() + "…"


def json_safe(encoded: str) -> str:
    """Replace control characters in a JSON document by JSON escapes; its value stays the same."""
    return _CONTROL.sub(lambda match: match[0] if match[0] in "\r\n" else _json_escape(match[0]), encoded)


def format_time(time: datetime | None) -> str:
    """Format a time in UTC, to the second; empty for `None`."""
    return "" if time is None else time.strftime("%Y-%m-%d %H:%M:%SZ")


def format_age(time: datetime, now: datetime) -> str:
    """Format how long ago a time was in one unit, such as `3d`; `now` below a minute, a date for the future."""
    passed = now - time
    if passed < timedelta(0):
        return time.strftime("%Y-%m-%d")
    return next((f"{passed // unit}{name}" for name, unit in _UNITS if passed >= unit), "now")


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 attempt`, `3 attempts`, `2 memories`."""
    plural_noun = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural_noun}"


def format_size(bytes: float) -> str:
    """Format a number of bytes, such as `1.5 kB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if bytes < 1000:
            return f"{bytes:.0f} {unit}" if unit == "bytes" or bytes >= 10 else f"{bytes:.1f} {unit}"
        bytes /= 1000
    return f"{bytes:.1f} TB"


def mask_password(url: str) -> str:
    """Replace the password in a database URL by `***`."""
    url = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1***", url)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
