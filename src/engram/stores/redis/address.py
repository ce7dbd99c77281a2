"""Parse Redis URLs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from engram.errors import InvalidInput
from engram.stores.expiring import milliseconds


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The parts of a Redis URL; `str` and `repr` leave out the password."""

    host: str
    port: int
    db: int = 0
    tls: bool = False
    ca: str | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    prefix: str = "engram"
    ttl_ms: int | None = None
    timeout: float = 5.0
    cluster: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


SCHEMES = {"redis": False, "valkey": False, "rediss": True, "valkeys": True}
_OPTIONS = ("ca", "cluster", "prefix", "timeout", "ttl")


def parse(url: str) -> RedisAddress:
    """Parse a URL such as `redis://user:password@host:6379/0?ttl=3600&prefix=engram`.

    Raises `InvalidInput` without repeating the URL, which may hold a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 6379
        user, password = parts.username, parts.password
        db = int(parts.path.strip("/") or "0")
    except ValueError:
        host = None
    if host is None or parts.scheme not in SCHEMES or db < 0:
        raise InvalidInput("a Redis URL looks like redis://[user:password@]host[:6379][/0][?ttl=3600]; check yours")
    if "@" in parts.query + parts.fragment:  # the rest would be parsed as options and quoted in an error
        raise InvalidInput("special characters in a Redis URL are percent-encoded: ? is %3F, # is %23, @ is %40")
    options = _options(parts)
    address = RedisAddress(
        host=host,
        port=port,
        db=db,
        tls=SCHEMES[parts.scheme],
        ca=options.get("ca"),
        user=unquote(user) if user else None,
        password=unquote(password) if password else None,
        prefix=options.get("prefix", "engram"),
        ttl_ms=milliseconds(_number("ttl", options["ttl"])) if "ttl" in options else None,
        timeout=_number("timeout", options.get("timeout", "5")),
        cluster=_truth("cluster", options.get("cluster", "no")),
    )
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,100}", address.prefix):
        raise InvalidInput("a Redis prefix has letters, digits and . : _ - only; choose another one")
    if not 0 < address.timeout <= 3600:
        raise InvalidInput("the timeout of a Redis URL is a number of seconds above 0, up to 3600; give such a number")
    if address.cluster and db:
        raise InvalidInput("a Redis Cluster has only database 0; leave the number out of the URL")
    return address


def _options(parts: SplitResult) -> dict[str, str]:
    given = parse_qsl(parts.query, keep_blank_values=True)
    for name, _ in given:
        if name not in _OPTIONS:
            raise InvalidInput(f"a Redis URL has no option {name!r}; there are: {', '.join(_OPTIONS)}")
    return dict(given)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{name} in a Redis URL is a number of seconds, not {text!r}; give one") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in {"yes", "no", "true", "false", "1", "0"}:
        raise InvalidInput(f"{name} in a Redis URL is yes or no, not {text!r}; give one of them")
    return text.lower() in {"yes", "true", "1"}
