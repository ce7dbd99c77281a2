"""Mask the parts of a message that vary between occurrences: numbers, ids, paths, addresses, times, hosts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

MAX_CHARACTERS = 2000
"""Longer lines are cut: what is beyond does not distinguish failures."""

PLACEHOLDERS = frozenset("<num> <id> <path> <url> <host> <email> <time> <str> <func> <val> <*>".split())

REDACTED = re.compile(r"\[(?:secret|personal):[a-z0-9-]{1,40}(?::[0-9a-f]{1,16})?\]")
"""The mark that the redactor leaves in place of a value."""
_PLACEHOLDER = re.compile("|".join(map(re.escape, sorted(PLACEHOLDERS))))
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?[AaPp][Mm]\b)?"
_ZONE = r"(?: ?(?:Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b))?"

_TIMES = re.compile(
    rf"(?<![\w.])(?:{_DAY},? {{1,2}})?(?:{_MONTH} {{1,2}}\d{{1,2}}|\d{{1,2}}[ -]{_MONTH}),?[ -](?:\d{{4}} )?{_CLOCK}"
    rf"{_ZONE}(?: [A-Z]{{3,4}}\b)?(?: \d{{4}}\b)?"
    rf"|(?<![\w./-])\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T _]{_CLOCK}{_ZONE})?(?![\w/-])"
    rf"|(?<![\w.:])\d{{1,2}}/\d{{1,2}}/\d{{2,4}}(?: {_CLOCK}{_ZONE})?(?!\w)"
    rf"|(?<![\w.:]){_CLOCK}{_ZONE}(?![\w:])"
    r"|(?<![\w:.>]):\d\d(?![\w:])"
)

_UNIT = (
    "(?:[kKMGTP]i?[Bb]|[kKMGT]|bytes?|bits?|B|ns|us|µs|ms|s|m|h|d|msecs?|secs?|mins?|nanoseconds?|microseconds?|milliseconds?"
    "|seconds?|minutes?|hours?|hrs?|days?|weeks?|[kMG]?[Hh]z|%)"
)
_LESS_THAN = re.compile(rf"[<>~≈](?=\d{{1,12}}(?:\.\d{{1,9}})? ?{_UNIT}(?![\w>]))")

_VALUE = re.compile(rf"<num> ?{_UNIT}(?!\w)|<[^<>\s]{{0,12}}>")

_RESOLVED = re.compile(
    r"(?<![\w.-])[A-Za-z0-9][\w-]{0,62}(?:(?:\.[\w-]{1,63}){1,12} ?|)(?=[\[(](?:\d{1,3}\.){3}\d{1,3}[\])])"
)
"""A name followed by its address in brackets."""
_OBJECT = re.compile(r"(?<![\w.$])[A-Za-z_][\w.$]{0,100}\{[^{}]{0,400}\}")
_FAILED = ("Error", "Exception", "Failure", "Warning")
_ASSIGNED = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{0,15}://\S+|(?<=\w)(?P<sign> = {0,2}|= {0,2})"
    r"(?!=)(?P<value>\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[^\s,;=()\[\]{}<>\"']{1,200}(?![^\s,;)\]}\"']))(?! ?=)"
)
_TELLING_KEYS = frozenset(
    "cause code detail err error event exception message msg reason result state status type".split()
)
"""Keys whose values say what happened, not to which object."""
_KEY = re.compile(r"\w+\Z")

_WORD = re.compile(
    r"<(?:num|id|path|url|host|email|time|str|func|val|\*)>"
    r"|[A-Za-z][A-Za-z0-9+.-]{0,15}://[^\s\"'`<>()\[\]{},;|]+"
    r"|(?<![\w:])::(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{1,4}(?![\w:])"
    r"|(?<![\w:])(?:[0-9A-Fa-f]{1,4}:{1,2}){2,7}[0-9A-Fa-f]{1,4}(?![\w:])"
    r"|(?<![\w.-])[\w-]{1,63}(?:(?:\.[\w-]{1,63}){1,12}:\d{1,5}(?![\w.:])|(?:\.[\w-]{1,63}){0,3}\[\d{1,9}-\d{1,9}(?:,\d{1,9}(?:-\d{1,9})?){0,20}\])"
    r"|\*{3,}\w*"
    r"|(?<!\w)[A-Za-z]:[\\/][^\s\"'`<>|,;()\[\]{}]*"
    r"|\\\\[\w.$-]+(?:\\[^\s\"'`<>|*?,;()\[\]{}]+)+"
    r"|(?<![\w>/.])(?:~|\.{1,2})?/[\w.@%+$~:=&?#-]+(?:/[\w.@%+$~:=&?#-]*)*"
    r"|\*\d+(?!\w)"
    r"|[-+#$]?[\w][\w@$%+~#-]*(?:(?:/\.?|\.)[\w@$%+~#-]+)*"
)

_KEPT = frozenset(
    """utf-8 utf8 utf-16 utf16 utf-32 latin-1 latin1 iso-8859-1 cp1252 ipv4 ipv6 int8 int16 int32 int64 uint8
    uint16 uint32 uint64 float16 float32 float64 i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 base64 base32
    md5 sha1 sha-1 sha256 sha-256 sha512 http/1.0 http/1.1 http/2 http2 x86 x86_64 x64 amd64 arm64 win32 python2
    python3 es5 es6 s3 ec2 oauth2 oauth1 k8s i18n l10n log4j slf4j web3 p2p psycopg2 urllib3 boto3 jinja2
    sqlite3 bs4 h2 h5py mp3 mp4 l1 l2 l3 2d 3d""".split()
)
"""Technical terms that contain a digit and never vary."""

_CONSTANTS = frozenset("null none nil nan".split())
_OPPOSITES = (
    ("up", "down"),
    ("true", "false"),
    ("yes", "no"),
    ("on", "off"),
    ("enable enables enabled enabling", "disable disables disabled disabling"),
    ("start starts started starting", "stop stops stopped stopping"),
    ("open opens opened opening", "close closes closed closing"),
    ("success successful succeeded succeeds pass passed passes", "failure unsuccessful failed fails fail"),
    ("active activated", "inactive deactivated"),
    ("online", "offline"),
    ("connect connected connecting", "disconnect disconnected disconnecting"),
    ("allow allowed accept accepted", "deny denied reject rejected refused"),
    ("lock locked", "unlock unlocked"),
    ("mounted", "unmounted"),
    ("valid", "invalid"),
    ("present", "absent missing"),
    ("available reachable", "unavailable unreachable"),
    ("healthy", "unhealthy"),
    ("login", "logout"),
    ("add added", "remove removed"),
    ("create created", "delete deleted"),
    ("increase increased", "decrease decreased"),
    ("attach attached", "detach detached"),
    ("loaded", "unloaded"),
    ("granted", "revoked"),
)
"""Words that contradict each other: each class has two sides."""
_SIDES = {
    word: (number, side)
    for number, sides in enumerate(_OPPOSITES)
    for side, words in enumerate(sides)
    for word in words.split()
}
_LATIN = re.compile(r"[A-Za-z]+")
_DOMAINS = frozenset(
    "com org net edu gov mil io dev app info biz local localdomain internal lan corp cloud arpa".split()
)
_COUNTRIES = frozenset(
    """ar at au be br ca ch cn co cz de dk es eu fi fr gr hk hu id ie il in it jp kr me mx my nl no nz pl pt ro ru se sg
    si sk th tr tw ua uk us vn za""".split()
)
_REGISTRIES = frozenset("ac co com edu gob gov go ne net or org".split())

_NUMBER = re.compile(r"[-+#$]?\d[\d,_]*(?:\.\d+)?(?:[eE][-+]?\d+)?%?")
_NUMBER_WITH_UNIT = re.compile(rf"([-+]?\d+(?:\.\d+)?)({_UNIT})")
_HEXADECIMAL = re.compile(r"[a-f]{7,40}|[A-F]{7,40}")
"""Hexadecimal without digits; seven letters from a to f are hardly ever a word."""
_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_FILE = frozenset(
    """py js ts jsx tsx mjs cjs java kt go rs rb php c cc cpp h hpp cs swift scala sh bash json yaml yml toml ini
    cfg conf xml html css md txt csv tsv log lock sql db sqlite pdf docx doc xlsx xls pptx zip tar gz tgz jar
    war so dll exe o a png jpg jpeg gif svg ipynb parquet pyc pem key crt env properties""".split()
)

_QUOTED = re.compile(
    r"(?<![\w\\])\"[^\"\n]{0,400}\"(?!\w)"
    r"|(?<![\w\\])'[^'\n]{0,400}'(?!\w)"
    r"|`[^`'\n]{0,400}[`'](?!\w)|`[^`\n]{0,400}`"
    r"|‘[^’\n]{0,400}’|“[^”\n]{0,400}”|«[^»\n]{0,400}»"
)
_LIST = re.compile(r"<(str|num|id|path|host|val)>(?:(?:, (?:and |or )?| and | or |,)<\1>)+")
_CALL = re.compile(r"(?<![\w.<>])[A-Za-z_][\w.<>]{0,100}\(\)")
_ROUNDS = 8
"""Masking can bring two quotation marks together, so it is repeated; a few rounds always suffice."""
_DIGIT = re.compile(r"\d")
_SPACES = re.compile(r"\s+")


def mask(text: str) -> str:
    """Replace everything that looks variable by its kind; masking twice changes nothing.

    Quoted words are kept: in a log they are often constant.
    """
    line = _SPACES.sub(" ", cut(text, MAX_CHARACTERS)).strip()
    if "[secret:" in line or "[personal:" in line:
        line = REDACTED.sub("<val>", line)
    if _DIGIT.search(line):
        line = _LESS_THAN.sub("", line)
        line = _TIMES.sub("<time>", line)
        if "[" in line or "(" in line:
            line = _RESOLVED.sub("<host>", line)
    if "{" in line:
        line = _without_objects(line)
    if "=" in line:
        line = _ASSIGNED.sub(_assigned, line)
    return _WORD.sub(_masked, line)


def _without_objects(line: str) -> str:
    """Mask objects printed with their fields, such as `Token{a64f992 name=x}`, innermost first."""
    for _ in range(_ROUNDS):
        before, line = line, _OBJECT.sub(_object, line)
        if line == before:
            break
    return line


def _object(found: re.Match[str]) -> str:
    name, _, fields = found[0].partition("{")
    plain = name.endswith(_FAILED) or not ("=" in fields or "<" in fields or _DIGIT.search(fields))
    return found[0] if plain else "<val>"


def _assigned(found: re.Match[str]) -> str:
    """Mask the value of `key=value`, unless key or value says what happened, or it is part of an address."""
    if found["sign"] is None or has_opposite(found["value"]):
        return found[0]
    key = _KEY.search(found.string, max(0, found.start() - 40), found.start())
    if key is None or key[0].lower() in _TELLING_KEYS:
        return found[0]
    return f"{found['sign']}<val>"


def mask_message(text: str) -> str:
    """Mask the message of an error, where also quoted values, lists of values and function names vary."""
    line = _SPACES.sub(" ", cut(text, MAX_CHARACTERS)).strip()
    for _ in range(_ROUNDS):
        before, line = line, _LIST.sub(r"<\1>", mask(_CALL.sub("<func>()", _QUOTED.sub("<str>", line))))
        if line == before:
            break
    return line


def cut(text: str, limit: int) -> str:
    """Shorten a text to the limit by removing its middle, which varies most."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - limit // 4 - 3]} … {text[len(text) - limit // 4 :]}"


def readable(message: str) -> str:
    """Write a masked message for people, with an ellipsis for each value."""
    return _PLACEHOLDER.sub("…", message)


class _Shown(Protocol):
    """A failure that is shown to people."""

    @property
    def example(self) -> str: ...

    @property
    def error_signature(self) -> str: ...


def error_text(failure: _Shown) -> str:
    """Return the latest error text of a failure, else what its errors have in common."""
    return failure.example or readable(failure.error_signature)


def has_opposite(word: str) -> bool:
    """Return whether a word has an opposite, so that it is never just a value."""
    return word.lower() in _SIDES


def are_opposed(one: str, other: str) -> bool:
    """Return whether two messages contradict each other word by word."""
    sides = [[_SIDES[word] for word in _LATIN.findall(text.lower()) if word in _SIDES] for text in (one, other)]
    classes = [[number for number, _ in own] for own in sides]
    return classes[0] == classes[1] and sides[0] != sides[1]


def without_values(message: str) -> str:
    """Remove placeholders and their units from a masked message, leaving the constant words."""
    return _VALUE.sub(" ", message)


def _masked(found: re.Match[str]) -> str:
    word = found[0]
    bare = word.rstrip(":") if word[-1] == ":" else word
    return placeholder_of(bare) + word[len(bare) :]


@lru_cache(maxsize=50_000)
def placeholder_of(word: str) -> str:
    """Return the placeholder of a word that looks variable, else the word itself."""
    if word in PLACEHOLDERS or word.isalpha():
        return _of_letters(word)
    if "://" in word:
        return "<url>"
    if word[0] == "*":
        return "<val>"
    if word[0] in "/\\~" or word[1:3] in (":\\", ":/") or word[:2] in ("./", "..", ".\\"):
        return "<path>"
    if word[-1] == "]":
        return "<id>"
    if ":" in word and "." in word:
        return "<host>:<num>"
    return "<email>" if _EMAIL.fullmatch(word) else _of_signs(word)


def _of_signs(word: str) -> str:
    """Return the placeholder of a word with digits, dots, hyphens or slashes, else the word itself."""
    digits = _DIGIT.search(word) is not None
    if "/" in word:
        return _of_slashes(word, digits)
    if "." in word and (named := _of_dots(word)):
        return named
    if not digits:
        return word
    if word.lower() in _KEPT:
        return word
    if _NUMBER.fullmatch(word):
        return "<num>"
    if measured := _NUMBER_WITH_UNIT.fullmatch(word):
        return f"<num>{measured[2]}"
    return "<id>"


def _of_letters(word: str) -> str:
    if _HEXADECIMAL.fullmatch(word):
        return "<id>"
    return "<val>" if word.lower() in _CONSTANTS else word


def _of_slashes(word: str, digits: bool) -> str:
    last = word.rsplit("/", 1)[1]
    if word.lower() in _KEPT:
        return word
    if (
        digits
        or word.count("/") > 1
        or word.partition("/")[0].count(".") > 1
        or ("." in last and last.rpartition(".")[2].lower() in _FILE)
    ):
        return "<path>"
    return word


def _of_dots(word: str) -> str:
    """Return the placeholder of a host or a file, by its last part; empty for other dotted names."""
    parts = word.lower().split(".")
    last = parts[-1]
    if all(part.isdigit() for part in parts):
        return "<host>" if len(parts) == 4 else "<num>"
    if last in _DOMAINS and parts[0] not in _DOMAINS:
        return "<host>"
    if len(parts) > 2 and last in _COUNTRIES and (parts[-2] in _REGISTRIES or _DIGIT.search(word)):
        return "<host>"
    if last in _FILE and len(last) > 1 and len(parts) == 2:
        return "<path>"
    return ""
