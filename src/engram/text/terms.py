"""Split text into index terms, and compare texts by their normal form: the same analysis for every store."""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from functools import lru_cache

import snowballstemmer

# Scripts written without spaces: a run of them is indexed as overlapping pairs of characters.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_PAIRED = re.compile(f"[{_UNSPACED}]")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SPACES = re.compile(r"\s+")

STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between
    both but by can could did do does doing don down during each few for from further had has have having he
    her here hers herself him himself his how i if in into is it its itself just let me more most my myself
    no nor not now of off on once only or other our ours ourselves out over own same she should so some such
    than that the their theirs them themselves then there these they this those through to too under until
    up very was we were what when where which while who whom why will with would you your yours yourself
    yourselves""".split()
)

K1, B = 1.2, 0.75  # BM25: saturation of term frequency, and normalisation by length
MAX_TERM = 64
MAX_QUERY_TERMS = 64

_stemmer = snowballstemmer.stemmer("english")
_stemming = threading.Lock()  # the stemmer is stateful


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    if not word.isascii() or word.isdigit():
        return word
    with _stemming:
        return str(_stemmer.stemWord(word))


def _fold(text: str) -> str:
    """Return a text without accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.combining(c)))


def _words(text: str) -> list[str]:
    """Split a text without accents into lower-case words."""
    words: list[str] = []
    for run in _RUN.findall(text):
        if run[0] >= "\u0e00" and re.match(f"[{_UNSPACED}]", run):
            words += [run[i : i + 2] for i in range(max(1, len(run) - 1))]
            continue
        lower = run.lower()
        words.append(lower)
        humps = _HUMP.findall(run) if lower != run and run[1:] != lower[1:] and not run.isupper() else []
        if len(humps) > 1:
            words += [hump.lower() for hump in humps]
    return words


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script that is written without spaces."""
    return _PAIRED.match(character) is not None


def index_terms(text: str) -> list[str]:
    """Return the terms a text is indexed by, in order, repeated as often as they occur."""
    return [_stem(word)[:MAX_TERM] for word in _words(text if text.isascii() else _fold(text))]


def query_terms(text: str) -> list[str]:
    """Return the distinct terms to search for, without stop words unless there is nothing else."""
    words = _words(text if text.isascii() else _fold(text))
    telling = [word for word in words if word not in STOP_WORDS] or words
    return list(dict.fromkeys(_stem(word)[:MAX_TERM] for word in telling))[:MAX_QUERY_TERMS]


def normal_form(text: str) -> str:
    """Return the form in which equivalent texts are equal: case, spacing and a final full stop are ignored.

    Everything that carries meaning is kept: numbers, names, negations, accents, other punctuation.
    """
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip().lower().removesuffix(".").rstrip()


def digest(*parts: str) -> str:
    """Return a short stable hash of some texts, including the boundaries between them."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big") + data)
    return state.hexdigest()
