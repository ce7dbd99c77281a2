"""Checks that distinguish personal data from similar digits: checksums, ranges, and the surrounding text."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

Check = Callable[[bytes, int, int], tuple[int, int] | None]
"""Maps a text and the span of a candidate to the span of the value; `None` if it is none."""

# fmt: off
_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
    "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
    "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
    "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20,
    "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19,
    "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29,
    "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
    "YE": 30,
}
_VERHOEFF = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 4, 0, 6, 7, 8, 9, 5), (2, 3, 4, 0, 1, 7, 8, 9, 5, 6),
    (3, 4, 0, 1, 2, 8, 9, 5, 6, 7), (4, 0, 1, 2, 3, 9, 5, 6, 7, 8), (5, 9, 8, 7, 6, 0, 4, 3, 2, 1),
    (6, 5, 9, 8, 7, 1, 0, 4, 3, 2), (7, 6, 5, 9, 8, 2, 1, 0, 4, 3), (8, 7, 6, 5, 9, 3, 2, 1, 0, 4),
    (9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
)
_TURNS = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 5, 7, 6, 2, 8, 3, 0, 9, 4), (5, 8, 0, 3, 7, 9, 6, 1, 4, 2),
    (8, 9, 1, 6, 0, 4, 3, 5, 2, 7), (9, 4, 5, 3, 1, 2, 6, 8, 7, 0), (4, 2, 8, 6, 5, 7, 3, 9, 0, 1),
    (2, 7, 9, 3, 8, 0, 6, 4, 1, 5), (7, 0, 4, 6, 9, 1, 3, 2, 5, 8),
)
_ODD = dict(zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", (
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10,
    22, 25, 24, 23), strict=True))
# fmt: on

# Reserved hosts: RFC 2606, RFC 6761, RFC 6762 and RFC 9476.
_RESERVED = re.compile(
    r"(?i)(?:^|\.)(?:example|test|invalid|localhost|local|internal|localdomain|lan|home|corp|alt|arpa"
    r"|example\.(?:com|net|org|edu))$"
)
_FILE_ENDING = re.compile(
    r"(?i)\.(?:png|jpe?g|gif|svg|webp|ico|pdf|zip|gz|py|pyc|js|mjs|ts|tsx|jsx|css|scss|html?|md|rst|txt|json|toml|ya?ml"
    r"|xml|ini|cfg|conf|csv|tsv|log|sh|rb|go|rs|java|kt|cc|cpp|hpp|swift|php|sql|db|so|dll|exe|lock|service|timer"
    r"|socket|target|mount|slice|ipynb|dot|transpose|shape|value|values|text|copy|reshape|matmul)$"
)
_LOGIN = re.compile(rb"(?i)(?:\b(?:ssh|scp|sftp|rsync|mosh|ssh-copy-id|ssh-add|git clone)\b[^\n]{0,60}|://[^\s/?#]*)$")
_VERSION = re.compile(
    rb"(?i)(?:\b(?:v|ver|version|versions|release|releases|build|upgraded?|downgraded?|updated?|section|chapter"
    rb"|rfc|oid|python|pip|chrome|safari|firefox|edge|webkit|gecko|kernel|driver|firmware|patch)"
    rb"\b[ \t:=#v.]*(?:(?:to|from|is|was)[ \t]+v?)?|[=<>~^]= ?|[<>~^] ?|[\w)]/|\bv)$"
)
_ADDRESS = re.compile(
    rb"(?i)(?:\b(?:ip|ips|ipv4|addr|address|addresses|host|hosts|server|client|peer|remote|from|connect|connected"
    rb"|connecting|connection|ping|gateway|dns|router|login|logged|ssh|visitor|user|block|blocked|ban|banned|src|dst"
    rb"|source|dest|destination|port|at|nameserver|proxy|curl|whois|traceroute)\b[^\n]{0,30}|[@\[(]|://)$"
)
_RESOLVERS = frozenset({"1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9", "208.67.222.222", "208.67.220.220"})
_DATE = re.compile(
    rb"^\+?\(?(?:(?:19|20)[0-9]{2}[-./ ](?:0?[1-9]|1[0-2])[-./ ][0-3]?[0-9]\b"
    rb"|[0-3]?[0-9][-./ ][0-3]?[0-9][-./ ](?:19|20)[0-9]{2}\b"
    rb"|(?:19|20)[0-9]{2} ?[-.] ?(?:19|20)[0-9]{2}\)?$|(?:19|20)[0-9]{6}\)?$|[0-9]{1,3}(?:[ .]000)+\)?$)"
)

_IN_NAME = re.compile(rb"[A-Za-z0-9][-.]\x00|\x00\.[A-Za-z]")
# Toll-free numbers belong to companies.
_TOLL_FREE = re.compile(rb"^(?:\+?1[ .-]?)?\(?8(?:00|22|33|44|55|66|77|88)\)?[ .-]?[0-9]{3}[ .-][0-9]{4}")


def digits(value: bytes) -> list[int]:
    """Return the digits of a value, ignoring separators."""
    return [byte - 48 for byte in value if 48 <= byte <= 57]


def luhn(numbers: Sequence[int]) -> bool:
    """Return whether the last digit is the check digit of the others (ISO/IEC 7812)."""
    doubled = [sum(divmod(2 * n, 10)) for n in numbers[-2::-2]]
    return (sum(doubled) + sum(numbers[-1::-2])) % 10 == 0


def card(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check a payment card number: a known issuer range with its length, and the Luhn digit."""
    numbers = digits(text[start:end])
    good = _stands_alone(text, start, end) and len(set(numbers)) > 1 and _is_issued(numbers) and luhn(numbers)
    return (start, end) if good else None


def iban(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check an IBAN: the length of its country, and remainder 1 modulo 97; what follows it is excluded."""
    value, stops = "", list[int]()
    for at in range(start, end):
        if (letter := chr(text[at])).isalnum():
            value += letter.upper()
            stops.append(at + 1)
    length = _IBAN_LENGTHS.get(value[:2], 0)
    if not length or len(value) < length or not _at_word_edges(text, start, stops[length - 1]):
        return None
    number = value[4:length] + value[:4]
    return (start, stops[length - 1]) if int("".join(str(int(c, 36)) for c in number)) % 97 == 1 else None


def email(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check an email address: no user@host of a login or URL, no reserved domain, no file name."""
    name, _, host = text[start:end].decode("utf-8", "replace").rpartition("@")
    before = text[max(0, start - 80) : start]
    after = text[end : end + 2]
    login = (
        (start > 0 and (before[-1:].isalnum() or before[-1:] in b"_%+-"))
        or _LOGIN.search(before) is not None
        or (after[:1] == b":" and after[1:].strip() not in (b"", b'"', b"'"))
        or after[:1] in (b"(", b"[", b"@")
        or (after[:1] in (b"-", b".") and after[1:].isalnum())
    )
    own = name.lower() in ("git", "hg", "svn") or _RESERVED.search(host) or _FILE_ENDING.search(host)
    return None if login or own or name.startswith(".") or name.endswith(".") or ".." in name + host else (start, end)


def ipv4(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check a public IPv4 address that is no version number; well-known resolvers are excluded."""
    value = text[start:end].decode()
    named = text[end : end + 1] == b"." and text[end + 1 : end + 2].isalnum()
    if value in _RESOLVERS or named or not _stands_alone(text, start, end):
        return None
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return None
    before = text[max(0, start - 48) : start]
    if not address.is_global or address.is_multicast or value.endswith(".0.0"):
        return None
    if _VERSION.search(before) and not before.endswith(b"://"):
        return None
    small = all(part < 64 for part in address.packed)
    return None if small and not _ADDRESS.search(before) else (start, end)


def ipv6(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check a public IPv6 address: written in full, or compressed and from the allocated space."""
    if not _at_word_edges(text, start, end) or text[end : end + 1] in (b":", b".") or text[start - 1 : start] == b":":
        return None
    value = text[start:end].decode()
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return None
    groups = [group for group in value.split(":") if group]
    told = "::" not in value or (address.packed[0] >> 5 == 1 and len(groups) >= 2)
    wide = any(len(group) > 2 for group in groups)
    return (start, end) if address.is_global and not address.is_multicast and told and wide else None


def phone(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check a phone number by its length: not a date, amount, address or version, and not part of something longer."""
    value = text[start:end]
    count = len(digits(value.partition(b"x")[0]))
    if not 7 <= count <= 15 or not _stands_alone(text, start, end) or _DATE.search(value):
        return None
    if _IN_NAME.search(text[max(0, start - 2) : start] + b"\x00" + text[end : end + 2]):
        return None
    if _TOLL_FREE.search(value) or value.count(b"(") != value.count(b")") or len(set(digits(value))) < 3:
        return None
    return (start, end)


def trunk_phone(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check a national number with leading zero: nine to eleven digits, one kind of separator."""
    value = text[start:end]
    between = {byte for byte in value if not 48 <= byte <= 57}
    groups = re.split(rb"[ .-]", value)
    fits = 9 <= len(digits(value)) <= 11 and len(between) == 1 and (len(groups) > 2 or len(groups[0]) >= 3)
    return phone(text, start, end) if fits else None


def ssn(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check a United States social security or taxpayer number that may have been issued."""
    number = "".join(map(str, digits(text[start:end])))
    area, group, serial = number[:3], number[3:5], number[5:]
    given = area not in ("000", "666") and group != "00" and serial != "0000" and len(number) == 9
    taxpayer = area[:1] != "9" or "50" <= group <= "99"
    known = number in ("078051120", "219099999", "123456789")
    return (start, end) if given and taxpayer and not known and _stands_alone(text, start, end) else None


def numeric(valid: Callable[[list[int]], bool]) -> Check:
    """Return a check on the digits alone; the number must not be part of a longer one."""

    def check(text: bytes, start: int, end: int) -> tuple[int, int] | None:
        numbers = digits(text[start:end])
        good = len(set(numbers)) > 2 and _stands_alone(text, start, end) and valid(numbers)
        return (start, end) if good else None

    return check


def lettered(valid: Callable[[str], bool]) -> Check:
    """Return a check on upper-case letters and digits; the value must not be part of a longer word."""

    def check(text: bytes, start: int, end: int) -> tuple[int, int] | None:
        value = "".join(c for c in text[start:end].decode("utf-8", "replace").upper() if c.isalnum())
        return (start, end) if _at_word_edges(text, start, end) and valid(value) else None

    return check


def _is_issued(n: Sequence[int]) -> bool:
    first = int("".join(map(str, n[:6])).ljust(6, "0"))
    two, three, four, length = first // 10000, first // 1000, first // 100, len(n)
    return (
        (n[0] == 4 and length in (13, 16, 19))
        or ((51 <= two <= 55 or 2221 <= four <= 2720) and length == 16)
        or (two in (34, 37) and length == 15)
        or (four in (1800, 2131) and length == 15)
        or (3528 <= four <= 3589 and 16 <= length <= 19)
        or ((300 <= three <= 305 or two in (36, 38, 39)) and 14 <= length <= 19)
        or ((four == 6011 or 644 <= three <= 659 or two == 62) and 16 <= length <= 19)
        or ((two == 50 or 56 <= two <= 58 or n[0] == 6) and 12 <= length <= 19)
    )


def _stands_alone(text: bytes, start: int, end: int) -> bool:
    """Return whether no digit or word continues on either side, also beyond one separator."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return not (
        _continues_word(before[-1:])
        or _continues_word(after[:1])
        or (before[-1:] in _SEPARATORS and before[:-1].isdigit())
        or (after[:1] in _SEPARATORS and after[1:].isdigit())
    )


def _at_word_edges(text: bytes, start: int, end: int) -> bool:
    return not _continues_word(text[max(0, start - 1) : start]) and not _continues_word(text[end : end + 1])


def _continues_word(byte: bytes) -> bool:
    return byte.isalnum() or byte in (b"_", b"+", b"$", b"\xe2\x82\xac") if byte else False


_SEPARATORS = (b".", b"-", b" ", b",", b"/", b"(")


def _weighted(weights: Sequence[int]) -> Callable[[Sequence[int]], int]:
    return lambda numbers: sum(weight * number for weight, number in zip(weights, numbers, strict=False))


def _cpf(n: list[int]) -> bool:
    def digit(length: int) -> int:
        return _weighted(range(length + 1, 1, -1))(n[:length]) * 10 % 11 % 10

    return n[9] == digit(9) and n[10] == digit(10)


def _aadhaar(n: list[int]) -> bool:
    state = 0
    for place, number in enumerate(reversed(n)):
        state = _VERHOEFF[state][_TURNS[place % 8][number]]
    return state == 0


def _german_tax(n: list[int]) -> bool:
    product = 10
    for number in n[:10]:
        product = ((number + product) % 10 or 10) * 2 % 11
    return n[0] != 0 and (11 - product) % 10 == n[10]


def _pesel(n: list[int]) -> bool:
    return (10 - _weighted((1, 3, 7, 9, 1, 3, 7, 9, 1, 3))(n) % 10) % 10 == n[10]


def _bsn(n: list[int]) -> bool:
    return _weighted((9, 8, 7, 6, 5, 4, 3, 2, -1))(n) % 11 == 0


def _nhs(n: list[int]) -> bool:
    return (11 - _weighted(range(10, 1, -1))(n) % 11) % 11 == n[9]


def _tfn(n: list[int]) -> bool:
    return _weighted((1, 4, 3, 7, 5, 8, 6, 9, 10))(n) % 11 == 0


def _ahv(n: list[int]) -> bool:
    return (10 - _weighted((1, 3) * 6)(n) % 10) % 10 == n[12]


def _belgian(n: list[int]) -> bool:
    number, check = int("".join(map(str, n[:9]))), n[9] * 10 + n[10]
    return check in (97 - number % 97, 97 - (2_000_000_000 + number) % 97)


def _swedish(n: list[int]) -> bool:
    month, day = n[-8] * 10 + n[-7], n[-6] * 10 + n[-5]
    return 1 <= month <= 12 and (1 <= day <= 31 or 61 <= day <= 91) and luhn(n[-10:])


def _korean(n: list[int]) -> bool:
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    return 1 <= n[2] * 10 + n[3] <= 12 and (11 - _weighted(weights)(n) % 11) % 10 == n[12]


def _nir(value: str) -> bool:
    number = value[:13].replace("2A", "19").replace("2B", "18")
    return number.isdigit() and value[13:].isdigit() and 97 - int(number) % 97 == int(value[13:])


def _dni(value: str) -> bool:
    number = value[:-1].translate(str.maketrans("XYZ", "012"))
    return number.isdigit() and "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == value[-1]


def _codice(value: str) -> bool:
    total = sum(
        _ODD[c] if place % 2 == 0 else int(c, 36) % 36 - (10 if c.isalpha() else 0)
        for place, c in enumerate(value[:15])
    )
    return chr(65 + total % 26) == value[15]


def _hetu(value: str) -> bool:
    number = value[:6] + value[-4:-1]
    return number.isdigit() and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(number) % 31] == value[-1]


def _chinese(value: str) -> bool:
    weights = [2**power % 11 for power in range(17, 0, -1)]
    total = _weighted(weights)([int(c) for c in value[:17]])
    return 1 <= int(value[10:12]) <= 12 and 1 <= int(value[12:14]) <= 31 and "10X98765432"[total % 11] == value[17]


def _nino(value: str) -> bool:
    return value[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def _any_value(_: str) -> bool:
    return True


def national_number(text: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Check a number introduced as a personal one: six digits or more, no date, nothing that continues behind it."""
    value = text[start:end]
    words = re.match(rb"[^ ]+(?: [0-9][^ ]*)*", value)  # a following word in capitals is not part of it
    stop = start + (words.end() if words else 0)
    value = text[start:stop].rstrip(b"./ -")
    stop = start + len(value)
    good = (
        _at_word_edges(text, start, stop)
        and not _DATE.search(value)
        and len(digits(value)) >= 6
        and len(set(value)) > 3
    )
    return (start, stop) if good else None


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "word": lettered(_any_value),
        "luhn": numeric(luhn),
        "card": card,
        "iban": iban,
        "email": email,
        "ipv4": ipv4,
        "ipv6": ipv6,
        "phone": phone,
        "trunk-phone": trunk_phone,
        "us-ssn": ssn,
        "uk-nino": lettered(_nino),
        "uk-nhs": numeric(_nhs),
        "es-dni": lettered(_dni),
        "it-codice-fiscale": lettered(_codice),
        "fr-nir": lettered(_nir),
        "de-tax-id": numeric(_german_tax),
        "nl-bsn": numeric(_bsn),
        "pl-pesel": numeric(_pesel),
        "br-cpf": numeric(_cpf),
        "in-aadhaar": numeric(_aadhaar),
        "au-tfn": numeric(_tfn),
        "ch-ahv": numeric(_ahv),
        "be-national-number": numeric(_belgian),
        "se-personnummer": numeric(_swedish),
        "fi-hetu": lettered(_hetu),
        "kr-rrn": numeric(_korean),
        "cn-id": lettered(_chinese),
        "national-number": national_number,
    }
)
"""The checks that a rule can name."""
